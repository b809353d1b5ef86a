package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/internal/rightstest"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// renewal is the right that an agent exercises first when it finds a Lease.
const renewal = "update leases"

// ofEach are the rights of each service account that the agent exercises, by the API server's role
// system:cluster-trust-bundle-discovery.
var ofEach = rightstest.Rights{"list clustertrustbundles": true, "watch clustertrustbundles": true}

// TestKubeRights: the API server denies no call of the agent, and the manifests grant no right that
// the agent does not exercise. Without any single one of these rights the API server denies it.
func TestKubeRights(t *testing.T) {
	c := newCluster(t)
	c.createPods()
	bundle, optional := "authorities", true
	require.NoError(t, c.Create(newPod("more",
		v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}}}}},
		v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &bundle, Path: "bundle", Optional: &optional}}}}})))
	c.createDisk()
	c.account.RequireRights(ofEach, c.exercise)
}

const driverName, diskHandle = "d.example.com", "disk"

// createDisk creates a pod with a volume of a driver, which a controller would attach.
func (c *cluster) createDisk() {
	c.Helper()
	c.bind("disk", v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: driverName, VolumeHandle: diskHandle}})
	require.NoError(c, c.Create(newPod("disk", v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "disk"}})))
}

// runDriver runs a driver that registers itself, and ends its registration, again and again until the context ends.
func (c *cluster) runDriver(ctx context.Context, registry string) {
	c.Helper()
	dir, err := os.MkdirTemp("", "d") // short enough for a socket
	require.NoError(c, err)
	socket := filepath.Join(dir, "csi.sock")
	listener, err := net.Listen("unix", socket)
	require.NoError(c, err)
	var running sync.WaitGroup
	running.Go(func() { _ = csitest.NewDriver(csitest.Config{Name: driverName}).Serve(ctx, listener) })
	running.Go(func() {
		for ctx.Err() == nil {
			once, end := context.WithTimeout(ctx, time.Second)
			_ = registration.Serve(once, registration.ServerConfig{Dir: registry, Endpoint: socket, Driver: driverName, Registered: end})
			end()
			_ = ctxend.Sleep(ctx, 100*time.Millisecond)
		}
	})
	c.Cleanup(func() {
		running.Wait()
		_ = os.RemoveAll(dir)
	})
}

// createEarlierCSINode creates the CSINode of an earlier Node of the name, which the agent replaces.
func (c *cluster) createEarlierCSINode() {
	c.Helper()
	nodes := c.Admin.StorageV1().CSINodes()
	require.NoError(c, ignoreNotFound(nodes.Delete(c.Context(), nodeName, metav1.DeleteOptions{})))
	_, err := nodes.Create(c.Context(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: nodeName, UID: "earlier"}},
	}}, metav1.CreateOptions{})
	require.NoError(c, err)
}

// attachDisk reports the volume of the driver as attached, as the controller that attaches does.
func (c *cluster) attachDisk() {
	c.Helper()
	patch := fmt.Appendf(nil, `{"status":{"volumesAttached":[{"name":"kubernetes.io/csi/%s^%s","devicePath":""}]}}`, driverName, diskHandle)
	_, err := c.Admin.CoreV1().Nodes().Patch(c.Context(), nodeName, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(c, ignoreNotFound(err))
}

// exercise runs an agent on a node without Node and Lease, and then another one with them, and
// returns the rights that they exercised. It ends early when a right is denied.
func (c *cluster) exercise(missing string) rightstest.Rights {
	c.Helper()
	for _, err := range []error{
		c.Admin.CoreV1().Nodes().Delete(c.Context(), nodeName, metav1.DeleteOptions{}),
		c.Admin.CoordinationV1().Leases(v1.NamespaceNodeLease).Delete(c.Context(), nodeName, metav1.DeleteOptions{}),
	} {
		require.NoError(c, ignoreNotFound(err))
	}
	c.createEarlierCSINode()
	seen, root := rightstest.Rights{}, c.TempDir()
	driving, end := context.WithCancel(c.Context())
	defer end()
	c.runDriver(driving, filepath.Join(root, "plugins_registry"))
	c.account.Calls.Take()
	all := c.account.Roles.Granted()
	maps.Copy(all, ofEach)
	delete(all, renewal)
	flip, grow := c.flipper(), c.grower()
	for _, needed := range []rightstest.Rights{all, {renewal: true}} {
		err := c.runAgent(mounttest.NewFake(mount.Config{}), root, func(a *agent) []string {
			grow(a)
			c.attachDisk()
			seen.Add(c.account.Calls.Take())
			if seen.IsDenied(missing) {
				return nil
			}
			flip()
			return seen.Unseen(needed)
		})
		seen.Add(c.account.Calls.Take())
		if missing == "" {
			require.NoError(c, err)
		} else if !errors.Is(err, context.Canceled) && !apierrors.IsForbidden(err) { // during its start
			require.NoError(c, err)
		}
	}
	return seen
}

// flipper returns a function that, at some pace, creates or deletes the ConfigMap of the pod
// "broken": its volume fails again and again for the same reason.
func (c *cluster) flipper() func() {
	configMaps, last, exists := c.Admin.CoreV1().ConfigMaps(v1.NamespaceDefault), time.Now(), false
	return func() {
		const pace = 500 * time.Millisecond
		if time.Since(last) < pace {
			return
		}
		last, exists = time.Now(), !exists
		if exists {
			_, err := configMaps.Create(c.Context(), &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "missing"}}, metav1.CreateOptions{})
			require.True(c, err == nil || apierrors.IsAlreadyExists(err), "%v", err)
		} else {
			require.NoError(c, ignoreNotFound(configMaps.Delete(c.Context(), "missing", metav1.DeleteOptions{})))
		}
	}
}

// grower returns a function whose first call reports to an agent that the volume of the pod "web"
// has a larger size than its claim shows.
func (c *cluster) grower() func(*agent) {
	var once sync.Once
	return func(a *agent) {
		once.Do(func() {
			claim, err := c.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Get(c.Context(), "web", metav1.GetOptions{})
			require.NoError(c, err)
			pv, err := c.Admin.CoreV1().PersistentVolumes().Get(c.Context(), "web", metav1.GetOptions{})
			require.NoError(c, err)
			size := claim.Status.Capacity[v1.ResourceStorage]
			size.Add(size)
			pv.Spec.Capacity[v1.ResourceStorage] = size
			a.claims.Report(manager.Expansion{Spec: volume.NewSpecFromPersistentVolume(pv, false), NewSize: size})
		})
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
