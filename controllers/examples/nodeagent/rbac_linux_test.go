package main

import (
	"context"
	"errors"
	"maps"
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
func TestKubeRights(t *testing.T) {
	c := newCluster(t)
	c.createPods()
	bundle, optional := "authorities", true
	require.NoError(t, c.Create(newPod("more",
		v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}}}}},
		v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &bundle, Path: "bundle", Optional: &optional}}}}})))
	c.RequireRights(ofEach, c.exercise)
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
	seen, root := rightstest.Rights{}, c.TempDir()
	c.Calls.Take()
	all := c.Roles.Granted()
	maps.Copy(all, ofEach)
	delete(all, renewal)
	flip, grow := c.flipper(), c.grower()
	for _, needed := range []rightstest.Rights{all, {renewal: true}} {
		err := c.runAgent(mounttest.NewFake(mount.Config{}), root, func(a *agent) []string {
			grow(a)
			seen.Add(c.Calls.Take())
			if seen.IsDenied(missing) {
				return nil
			}
			flip()
			return seen.Unseen(needed)
		})
		seen.Add(c.Calls.Take())
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
