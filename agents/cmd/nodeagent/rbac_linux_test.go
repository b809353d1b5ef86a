package main

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/rightstest"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// renewal is the right that an agent exercises first when it finds a Lease.
const renewal = "update leases"

// ofEach are the rights of each service account that the agent exercises, by the API server's role
// system:cluster-trust-bundle-discovery.
var ofEach = rightstest.Rights{"list clustertrustbundles": true, "watch clustertrustbundles": true}

// TestKubeRights: the API server denies no call of the agent, and the manifests grant no right that
// the agent does not exercise. Without any single one of these rights the API server denies it.
func TestKubeRights(t *testing.T) { requireRights(t, newCluster(t)) }

// TestKubeRightsOfModes is TestKubeRights for an agent with fewer of the flags, and with the manifests of those.
func TestKubeRightsOfModes(t *testing.T) {
	for name, mode := range map[string]mode{"none": {}, "csi": {csi: true}, "register": {register: true}} {
		t.Run(name, func(t *testing.T) { requireRights(t, newClusterOf(t, mode)) })
	}
}

// requireRights requires that an agent exercises the rights of its account, and no others.
func requireRights(t *testing.T, c *cluster) {
	t.Helper()
	c.createPods()
	bundle, optional := "authorities", true
	require.NoError(t, c.Create(newPod("more",
		v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}}}}},
		v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &bundle, Path: "bundle", Optional: &optional}}}}})))
	if c.mode.csi {
		c.createDisk()
	}
	c.account.RequireRights(ofEach, c.exercise)
}

// exercise runs an agent and returns the rights that it exercised. With -register the node has no Node and no Lease
// before, and another agent runs after it. It ends early when a right is denied.
func (c *cluster) exercise(missing string) rightstest.Rights {
	c.Helper()
	c.resetNode()
	seen, root := rightstest.Rights{}, c.TempDir()
	if c.mode.csi {
		driving, end := context.WithCancel(c.Context())
		defer c.runDrivers(driving, filepath.Join(root, "plugins_registry"))()
		defer end()
	}
	c.account.Calls.Take()
	all := c.account.Roles.Granted()
	maps.Copy(all, ofEach)
	turns := []rightstest.Rights{all}
	if c.mode.register {
		delete(all, renewal)
		turns = append(turns, rightstest.Rights{renewal: true})
	}
	flip, grow := c.flipper(), c.grower()
	for _, needed := range turns {
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

// resetNode deletes the Node and its Lease, and creates the Node for an agent without -register. A CSINode of an earlier
// Node is left.
func (c *cluster) resetNode() {
	c.Helper()
	for _, err := range []error{
		c.Admin.CoreV1().Nodes().Delete(c.Context(), nodeName, metav1.DeleteOptions{}),
		c.Admin.CoordinationV1().Leases(v1.NamespaceNodeLease).Delete(c.Context(), nodeName, metav1.DeleteOptions{}),
		c.Admin.StorageV1().CSINodes().Delete(c.Context(), nodeName, metav1.DeleteOptions{}),
	} {
		require.NoError(c, ignoreNotFound(err))
	}
	_, err := c.Admin.StorageV1().CSINodes().Create(c.Context(), &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName, OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: nodeName, UID: "earlier"}},
	}}, metav1.CreateOptions{})
	require.NoError(c, err)
	if !c.mode.register {
		_, err := c.Admin.CoreV1().Nodes().Create(c.Context(), newNode(nodeName), metav1.CreateOptions{})
		require.NoError(c, err)
	}
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
