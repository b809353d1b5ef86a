package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// renewal is the right that an agent exercises first when it finds a Lease.
const renewal = "update leases"

// ofEach are the rights of each service account that the agent exercises, by the API server's role
// system:cluster-trust-bundle-discovery.
var ofEach = rights{"list clustertrustbundles": true, "watch clustertrustbundles": true}

// TestKubeRights: the API server denies no call of the agent, and the manifests grant no right that
// the agent does not exercise. Without any single one of these rights the API server denies it.
func TestKubeRights(t *testing.T) {
	c := newCluster(t)
	c.createPods()
	bundle, optional := "authorities", true
	require.NoError(t, c.create(newPod("more",
		v1.VolumeSource{DownwardAPI: &v1.DownwardAPIVolumeSource{Items: []v1.DownwardAPIVolumeFile{
			{Path: "cpu", ResourceFieldRef: &v1.ResourceFieldSelector{ContainerName: "c", Resource: "limits.cpu"}}}}},
		v1.VolumeSource{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ClusterTrustBundle: &v1.ClusterTrustBundleProjection{Name: &bundle, Path: "bundle", Optional: &optional}}}}})))
	granted := c.granted()
	exercised := c.exercise("")
	for right := range ofEach {
		require.True(t, exercised[right], right)
		delete(exercised, right)
	}
	require.Equal(t, granted, exercised)
	for _, right := range slices.Sorted(maps.Keys(granted)) {
		t.Run(right, func(part *testing.T) {
			c.T = part
			c.remove(right)
			part.Cleanup(func() { c.T = t }) // the context of part has ended in cleanups
			allowed, exercised := c.exercise(right)[right]
			require.True(part, exercised && !allowed, "the agent does not miss the right: %s", right)
		})
	}
}

// exercise runs an agent on a node without Node and Lease, and then another one with them, and
// returns the rights that they exercised. It ends early when a right is denied.
func (c *cluster) exercise(missing string) rights {
	c.Helper()
	for _, err := range []error{
		c.admin.CoreV1().Nodes().Delete(c.Context(), nodeName, metav1.DeleteOptions{}),
		c.admin.CoordinationV1().Leases(v1.NamespaceNodeLease).Delete(c.Context(), nodeName, metav1.DeleteOptions{}),
	} {
		require.NoError(c, ignoreNotFound(err))
	}
	seen, root := rights{}, c.TempDir()
	c.recorder.Take()
	all := c.granted()
	maps.Copy(all, ofEach)
	delete(all, renewal)
	flip, grow := c.flipper(), c.grower()
	for _, needed := range []rights{all, {renewal: true}} {
		err := c.runAgent(mounttest.NewFake(mount.Config{}), root, func(a *agent) []string {
			grow(a)
			seen.add(c.recorder.Take())
			if allowed, known := seen[missing]; known && !allowed {
				return nil
			}
			flip()
			return unseen(seen, needed)
		})
		seen.add(c.recorder.Take())
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
	configMaps, last, exists := c.admin.CoreV1().ConfigMaps(v1.NamespaceDefault), time.Now(), false
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
			claim, err := c.admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Get(c.Context(), "web", metav1.GetOptions{})
			require.NoError(c, err)
			pv, err := c.admin.CoreV1().PersistentVolumes().Get(c.Context(), "web", metav1.GetOptions{})
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

// unseen returns the needed rights that were not exercised.
func unseen(seen, needed rights) (missing []string) {
	for right := range needed {
		if _, ok := seen[right]; !ok {
			missing = append(missing, right)
		}
	}
	return missing
}

// remove takes a right from the agent until the test ends.
func (c *cluster) remove(right string) {
	c.Helper()
	for _, r := range c.roles {
		if !rightsOf(r.rules)[right] {
			continue
		}
		require.NoError(c, r.store(without(r.rules, right)))
		c.awaitRight(right, false)
		c.Cleanup(func() {
			require.NoError(c, r.store(r.rules))
			c.awaitRight(right, true)
		})
	}
}

// without returns the rules without a right.
func without(rules []rbacv1.PolicyRule, right string) (rest []rbacv1.PolicyRule) {
	for _, rule := range rules {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				if verb+" "+resource != right {
					rest = append(rest, rbacv1.PolicyRule{APIGroups: rule.APIGroups, Resources: []string{resource}, Verbs: []string{verb}})
				}
			}
		}
	}
	return rest
}

// awaitRight waits until the API server applies a change of the agent's rules.
func (c *cluster) awaitRight(right string, allowed bool) {
	c.Helper()
	verb, resource, _ := strings.Cut(right, " ")
	attributes := &authorizationv1.ResourceAttributes{Verb: verb, Resource: resource}
	attributes.Resource, attributes.Subresource, _ = strings.Cut(resource, "/")
	if attributes.Resource == "leases" {
		attributes.Group, attributes.Namespace = "coordination.k8s.io", v1.NamespaceNodeLease
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:kube-system:volumekit-nodeagent", ResourceAttributes: attributes}}
	require.Eventually(c, func() bool {
		answer, err := c.admin.AuthorizationV1().SubjectAccessReviews().Create(c.Context(), review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed == allowed
	}, time.Minute, 5*time.Millisecond)
}
