package manager_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestUnusableClaim: the error of an unusable claim has the reason, and running pods keep their
// volumes.
func TestUnusableClaim(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)
		errText string
	}{
		"pending":   {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimPending }, `the phase is "Pending" instead of "Bound"`},
		"no volume": {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "" }, "no volume yet"},
		"being deleted": {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, "being deleted"},
		"another's": {func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = "x" }, `with the UID "x"`},
		"not bound": {func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil }, "the volume is not bound"},
		"other mode": {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			b := v1.PersistentVolumeBlock
			c.Spec.VolumeMode = &b
		}, "spec.volumeMode: \"Filesystem\""},
		"missing volume":  {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "none" }, `claim default/bad: persistent volume "none" not found`},
		"no plugin of it": {func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "x" }, "no volume plugin matched"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.claim("good")
				n.claim("bad")
				ctx := t.Context()
				claim, err := n.source.GetPersistentVolumeClaim(ctx, "default", "bad")
				require.NoError(t, err)
				pv, err := n.source.GetPersistentVolume(ctx, "bad")
				require.NoError(t, err)
				pod := podWith("1", "good", "bad")
				m, stop := n.runUp(pod)
				defer stop()

				badClaim, badPV := claim.DeepCopy(), pv.DeepCopy()
				test.change(badClaim, badPV)
				n.source.SetClaim(badClaim)
				n.source.SetVolume(badPV)
				time.Sleep(time.Second)
				require.Equal(t, 2, n.mountCount(), "a pod that runs keeps its volumes")
				waiting, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				err = m.WaitForAttachAndMount(waiting, pod)
				require.ErrorContains(t, err, test.errText)
				var failed *manager.WaitError
				require.ErrorAs(t, err, &failed)
				require.Len(t, failed.Volumes, 1)
				require.Equal(t, "v1", failed.Volumes[0].Name)
				require.Contains(t, n.reasons(), manager.FailedMount)

				n.source.SetClaim(claim)
				n.source.SetVolume(pv)
				n.up(m, pod)
			})
		})
	}
}

// TestNodeLabelsChange: a volume is set up once the node has the label of its node affinity, and the pod keeps
// the volume without the label, also in the next run.
func TestNodeLabelsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn, Values: []string{"north"}}},
			}}}}
		})
		m, stop := n.run()
		defer func() { stop() }()
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		waiting, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, m.WaitForAttachAndMount(waiting, pod), "spec.nodeAffinity")
		labels := map[string]string{"zone": "north"}
		m.SetNodeLabels(labels)
		clear(labels) // the manager has a copy
		n.up(m, pod)
		m.SetNodeLabels(nil)
		time.Sleep(time.Second)
		require.Equal(t, 1, n.mountCount())
		before, err := n.kernel.List(t.Context())
		require.NoError(t, err)
		stop()

		m, stop = n.run() // which does not have the label at first
		time.Sleep(time.Minute)
		require.Equal(t, 1, n.mountCount())
		m.SetNodeLabels(map[string]string{"zone": "north"})
		n.up(m, pod)
		after, err := n.kernel.List(t.Context())
		require.NoError(t, err)
		require.Equal(t, before, after)
	})
}

// TestNodeAffinityIsRequired: a volume is not set up on a node that its node affinity excludes.
func TestNodeAffinityIsRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"another-node"}}},
			}}}}
		})
		m, stop := n.run()
		defer stop()
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorContains(t, m.WaitForAttachAndMount(ctx, pod), "spec.nodeAffinity")
		mounts, err := n.kernel.List(t.Context())
		require.NoError(t, err)
		require.Len(t, mounts, 1, "the root")
	})
}
