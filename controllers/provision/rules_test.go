package provision_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/metricstest"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	consumer = storagev1.VolumeBindingWaitForFirstConsumer
	block    = v1.PersistentVolumeBlock
)

func (w *world) createNode(name, zone string) {
	w.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
	_, err := w.cluster.Nodes().Create(w.Context(), node, metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *world) createAttributes(name, driver string) {
	w.Helper()
	attributes := &storagev1beta1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{Name: name}, DriverName: driver, Parameters: map[string]string{"iops": "9"}}
	_, err := w.cluster.VolumeAttributesClasses().Create(w.Context(), attributes, metav1.CreateOptions{})
	require.NoError(w, err)
}

// blocks is a storage of raw block devices, too.
type blocks struct{ *storage }

func (blocks) SupportsBlock(context.Context) bool { return true }

// A copier is a storage that fills volumes from sources of one kind.
type copier struct {
	*storage
	kind string
}

func (c copier) SupportsSource(_ context.Context, kind schema.GroupKind) bool {
	return kind.String() == c.kind
}

// from returns the change of a claim whose volume is to be filled from an object.
func from(group, kind string) func(*v1.PersistentVolumeClaim) {
	return func(c *v1.PersistentVolumeClaim) {
		c.Spec.DataSourceRef = &v1.TypedObjectReference{Kind: kind, Name: "source"}
		if group != "" {
			c.Spec.DataSourceRef.APIGroup = &group
		}
	}
}

func hasSource(t *testing.T, o provision.Options, _ *v1.PersistentVolume) {
	require.Equal(t, "source", o.PVC.Spec.DataSourceRef.Name)
}

func copying(kind string) func(*world) {
	return func(w *world) { w.config.Provisioner = copier{w.storage, kind} }
}

// TestProvisioned: which claims are provisioned, with which options and volumes.
func TestProvisioned(t *testing.T) {
	tests := map[string]struct {
		prepare func(*world)
		class   func(*storagev1.StorageClass)
		claim   func(*v1.PersistentVolumeClaim)
		check   func(*testing.T, provision.Options, *v1.PersistentVolume) // nil: nothing is provisioned
		event   string
	}{
		"mount options and policy": {class: func(c *storagev1.StorageClass) {
			retain := v1.PersistentVolumeReclaimRetain
			c.MountOptions, c.ReclaimPolicy = []string{"hard"}, &retain
		}, check: func(t *testing.T, _ provision.Options, pv *v1.PersistentVolume) {
			require.Equal(t, []string{"hard"}, pv.Spec.MountOptions)
			require.Equal(t, v1.PersistentVolumeReclaimRetain, pv.Spec.PersistentVolumeReclaimPolicy)
			require.NotContains(t, pv.Finalizers, provision.VolumeFinalizer)
		}},
		"beta annotations": {claim: func(c *v1.PersistentVolumeClaim) {
			c.Annotations = map[string]string{provision.BetaProvisionerAnnotation: driver, v1.BetaStorageClassAnnotation: "c"}
			c.Spec.StorageClassName = nil
		}, check: func(t *testing.T, _ provision.Options, pv *v1.PersistentVolume) {
			require.Equal(t, "c", pv.Spec.StorageClassName)
		}},
		"no annotation": {claim: func(c *v1.PersistentVolumeClaim) { c.Annotations = nil }},
		"no class":      {claim: func(c *v1.PersistentVolumeClaim) { c.Spec.StorageClassName = new(string) }},
		"a missing class": {claim: func(c *v1.PersistentVolumeClaim) {
			name := "missing"
			c.Spec.StorageClassName = &name
		}},
		"names a volume":      {claim: func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeName = "v" }},
		"another provisioner": {class: func(c *storagev1.StorageClass) { c.Provisioner = "another" }},
		"no provisioner":      {class: func(c *storagev1.StorageClass) { c.Provisioner = "kubernetes.io/no-provisioner" }},
		"another name": {prepare: func(w *world) { w.config.AdditionalNames = []string{"old"} }, class: func(c *storagev1.StorageClass) { c.Provisioner = "old" },
			check: func(t *testing.T, _ provision.Options, pv *v1.PersistentVolume) {
				require.Equal(t, "old", pv.Annotations[provision.ProvisionedByAnnotation])
			}},
		"no node is selected": {class: func(c *storagev1.StorageClass) { c.VolumeBindingMode = &consumer }},
		"a node is selected": {prepare: func(w *world) { w.createNode("n", "a") }, class: func(c *storagev1.StorageClass) { c.VolumeBindingMode = &consumer },
			claim: func(c *v1.PersistentVolumeClaim) { c.Annotations[provision.SelectedNodeAnnotation] = "n" },
			check: func(t *testing.T, o provision.Options, _ *v1.PersistentVolume) {
				require.Equal(t, "a", o.SelectedNode.Labels["zone"])
			}},
		"a node is selected without need": {claim: func(c *v1.PersistentVolumeClaim) { c.Annotations[provision.SelectedNodeAnnotation] = "n" },
			check: func(t *testing.T, o provision.Options, _ *v1.PersistentVolume) { require.Nil(t, o.SelectedNode) }},
		"a missing node": {class: func(c *storagev1.StorageClass) { c.VolumeBindingMode = &consumer },
			claim: func(c *v1.PersistentVolumeClaim) { c.Annotations[provision.SelectedNodeAnnotation] = "n" }, event: `node "n" does not exist`},
		"a node that the class does not allow": {prepare: func(w *world) { w.createNode("n", "a") }, class: func(c *storagev1.StorageClass) {
			c.VolumeBindingMode = &consumer
			c.AllowedTopologies = []v1.TopologySelectorTerm{{MatchLabelExpressions: []v1.TopologySelectorLabelRequirement{{Key: "zone", Values: []string{"b"}}}}}
		}, claim: func(c *v1.PersistentVolumeClaim) { c.Annotations[provision.SelectedNodeAnnotation] = "n" }, event: `does not allow node "n"`},
		"block": {prepare: func(w *world) { w.config.Provisioner = blocks{w.storage} }, claim: func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block },
			check: func(t *testing.T, _ provision.Options, pv *v1.PersistentVolume) {
				require.Equal(t, block, *pv.Spec.VolumeMode)
			}},
		"block, not supported":        {claim: func(c *v1.PersistentVolumeClaim) { c.Spec.VolumeMode = &block }, event: "does not provision raw block devices"},
		"a copy":                      {prepare: copying("PersistentVolumeClaim"), claim: from("", "PersistentVolumeClaim"), check: hasSource},
		"a copy, not supported":       {prepare: copying("VolumeSnapshot.snapshot.storage.k8s.io"), claim: from("", "PersistentVolumeClaim"), event: "does not fill volumes from a PersistentVolumeClaim"},
		"a snapshot":                  {prepare: copying("VolumeSnapshot.snapshot.storage.k8s.io"), claim: from("snapshot.storage.k8s.io", "VolumeSnapshot"), check: hasSource},
		"a snapshot, not supported":   {claim: from("snapshot.storage.k8s.io", "VolumeSnapshot"), event: "does not fill volumes from a VolumeSnapshot.snapshot.storage.k8s.io"},
		"of a populator":              {prepare: copying("PersistentVolumeClaim"), claim: from("example.com", "Backup")},
		"of a populator's name alone": {claim: from("example.com", "VolumeSnapshot")},
		"an own kind of source":       {prepare: copying("Backup.example.com"), claim: from("example.com", "Backup"), check: hasSource},
		"attributes class": {prepare: func(w *world) { w.createAttributes("gold", driver) }, claim: func(c *v1.PersistentVolumeClaim) {
			name := "gold"
			c.Spec.VolumeAttributesClassName = &name
		}, check: func(t *testing.T, o provision.Options, pv *v1.PersistentVolume) {
			require.Equal(t, volume.VolumeAttributesClass{Name: "gold", DriverName: driver, Parameters: map[string]string{"iops": "9"}}, o.VolumeAttributesClass)
			require.Equal(t, "gold", *pv.Spec.VolumeAttributesClassName)
		}},
		"attributes class of another": {prepare: func(w *world) { w.createAttributes("gold", "another") }, claim: func(c *v1.PersistentVolumeClaim) {
			name := "gold"
			c.Spec.VolumeAttributesClassName = &name
		}, event: `of driver "another"`},
		"a missing attributes class": {claim: func(c *v1.PersistentVolumeClaim) {
			name := "gold"
			c.Spec.VolumeAttributesClassName = &name
		}, event: `read volume attributes class "gold"`},
		"a name hook": {prepare: func(w *world) {
			w.config.VolumeName = func(c *v1.PersistentVolumeClaim) string { return c.Namespace + "-" + c.Name + "-" + string(c.UID) }
		}, check: func(t *testing.T, o provision.Options, pv *v1.PersistentVolume) {
			require.True(t, strings.HasPrefix(pv.Name, "default-a-"))
			require.Equal(t, pv.Name, o.PVName)
		}},
		"an invalid name": {prepare: func(w *world) {
			w.config.VolumeName = func(*v1.PersistentVolumeClaim) string { return "../x" }
		}, event: `volume name "../x"`},
		"not qualified": {prepare: func(w *world) {
			w.config.Qualifier = func(context.Context, *v1.PersistentVolumeClaim) bool { return false }
		}},
	}
	for name, test := range tests {
		forEachHistory(t, name, func(t *testing.T, h history) {
			inWorld(t, func(w *world) {
				class, claim := newClass("c"), newClaim("a", "c")
				if test.prepare != nil {
					test.prepare(w)
				}
				if test.class != nil {
					test.class(class)
				}
				if test.claim != nil {
					test.claim(claim)
				}
				w.createClass(class)
				h.begin(w, claim)
				w.wait(time.Second)
				if test.check == nil {
					require.Empty(w, w.volumes())
					require.Empty(w, w.storage.names())
					if h != guardedByTenant {
						require.Empty(w, w.storage.calls)
						require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
					}
					if h == guardedByTenant && test.event == "" {
						return // the finalizer may stay: an earlier run may have called Provision
					}
					if test.event != "" {
						require.Contains(w, w.eventsOf("ProvisioningFailed")[0], test.event)
						require.Len(w, slices.Compact(w.eventsOf("ProvisioningFailed")), 1)
					} else {
						require.Empty(w, w.events)
					}
					w.deleteClaim("a")
					w.finish()
					w.checkNothingLeft()
					return
				}
				require.Len(w, w.volumes(), 1)
				test.check(t, w.storage.made[0], &w.volumes()[0])
				w.bind()
				require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
			})
		})
	}
}

// TestGuardedWithoutNode: the storage of a claim that waits for its node is discarded. The finalizer
// may be that of an earlier run, or a tenant has written it.
func TestGuardedWithoutNode(t *testing.T) {
	inWorld(t, func(w *world) {
		class := newClass("c")
		class.VolumeBindingMode = &consumer
		w.createClass(class)
		w.storage.on("provision", failing(2, volume.AsUncertain(errors.New("fails")), true))
		guardedByTenant.begin(w, newClaim("a", "c"))
		w.wait(time.Minute)
		require.Empty(w, w.server.Calls(apitest.Call{Verb: apitest.Create}), "no object")
		require.Empty(w, w.storage.names())
		require.Contains(w, w.eventsOf("ProvisioningFailed")[1], "no node is selected")
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
		w.deleteClaim("a")
		w.finish()
		w.checkNothingLeft()
	})
}

// TestDataIsNotDiscarded: a claim that was bound has data, which a failed check does not discard.
func TestDataIsNotDiscarded(t *testing.T) {
	inWorld(t, func(w *world) {
		class, claim := newClass("c"), newClaim("a", "c")
		class.VolumeBindingMode = &consumer
		w.createClass(class)
		w.createNode("n", "a")
		claim.Annotations[provision.SelectedNodeAnnotation] = "n"
		name := "pvc-" + string(w.createClaim(claim).UID)
		_, end := w.start()
		w.wait(time.Second)
		w.bind()
		end()
		w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
		require.NoError(w, w.cluster.Nodes().Delete(w.Context(), "n", metav1.DeleteOptions{}))
		w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Finalizers = append(c.Finalizers, provision.ClaimFinalizer) })
		w.start()
		w.wait(time.Hour)
		require.Equal(w, []string{name}, w.storage.names())
		require.Equal(w, 1, w.storage.callsOf("provision"))
		require.Contains(w, w.eventsOf("ProvisioningFailed")[0], `node "n" does not exist`)
	})
}

// TestDefaultClassIsSet: a claim without a class receives the default class before its Provision, so
// that its volume has the class of the claim.
func TestDefaultClassIsSet(t *testing.T) {
	for _, isUnguarded := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.config.UnguardedClaims = isUnguarded
			claim := newClaim("a", "")
			claim.Spec.StorageClassName = nil
			w.createClaim(claim)
			w.start()
			w.wait(time.Second)
			require.Empty(w, w.storage.calls)
			class := newClass("standard")
			class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
			w.createClass(class)
			w.wait(time.Second)
			w.bind()
			require.Equal(w, "standard", *w.claim("a").Spec.StorageClassName)
			require.Equal(w, "standard", w.volumes()[0].Spec.StorageClassName)
			require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		})
	}
}

// TestReschedule: the selected node is removed with the finalizer, in one write.
func TestReschedule(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", failing(1, volume.ErrReschedule, false))
		class := newClass("c")
		class.VolumeBindingMode = &consumer
		w.createClass(class)
		w.createNode("n", "a")
		claim := newClaim("a", "c")
		claim.Annotations[provision.SelectedNodeAnnotation] = "n"
		w.createClaim(claim)
		w.start()
		w.wait(time.Second)
		require.NotContains(w, w.claim("a").Annotations, provision.SelectedNodeAnnotation)
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
		require.Len(w, w.server.Calls(apitest.Call{Verb: apitest.Patch}), 2)
		w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Annotations[provision.SelectedNodeAnnotation] = "n" })
		w.wait(time.Second)
		require.Len(w, w.volumes(), 1)
	})
}

// TestRescheduleAfterRestart: a missing node is removed from a claim that may have storage, after the
// storage is deleted.
func TestRescheduleAfterRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		class, claim := newClass("c"), newClaim("a", "c")
		class.VolumeBindingMode = &consumer
		w.createClass(class)
		claim.Annotations[provision.SelectedNodeAnnotation] = "n"
		guardedByTenant.begin(w, claim)
		w.wait(time.Minute)
		require.Equal(w, 1, w.storage.callsOf("delete"))
		require.NotContains(w, w.claim("a").Annotations, provision.SelectedNodeAnnotation)
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
	})
}

// TestInfeasibleUntilTheClassChanges: an infeasible request is retried rarely, and at once with
// another class of the name.
func TestInfeasibleUntilTheClassChanges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", failing(1000, errors.Join(errors.New("parameter x is unknown"), volume.ErrInfeasible), false))
		class := w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(4 * time.Minute)
		require.Equal(w, 1, w.storage.callsOf("provision"))
		w.wait(2 * time.Minute)
		require.Equal(w, 2, w.storage.callsOf("provision"))
		require.Len(w, w.eventsOf("ProvisioningFailed"), 1)
		w.storage.on("provision", nil)
		require.NoError(w, w.cluster.StorageClasses().Delete(w.Context(), class.Name, metav1.DeleteOptions{}))
		w.createClass(newClass("c"))
		w.wait(time.Second)
		require.Len(w, w.volumes(), 1)
	})
}

// TestIgnored: an ignored claim is left to another provisioner, without a failure.
func TestIgnored(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", failing(1, &volume.IgnoredError{Reason: "another zone"}, false))
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(time.Hour)
		require.Equal(w, 1, w.storage.callsOf("provision"))
		require.Empty(w, w.eventsOf("ProvisioningFailed"))
		require.NotContains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
	})
}

// TestProvisionThreshold: the attempts end after a number of failures, and begin again with a change.
func TestProvisionThreshold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.ProvisionThreshold = 3
		w.storage.on("provision", failing(1000, errors.New("no space"), false))
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(24 * time.Hour)
		require.Equal(w, 3, w.storage.callsOf("provision"))
		class, err := w.cluster.StorageClasses().Get(w.Context(), "c", metav1.GetOptions{})
		require.NoError(w, err)
		class.MountOptions = []string{"hard"}
		_, err = w.cluster.StorageClasses().Update(w.Context(), class, metav1.UpdateOptions{})
		require.NoError(w, err)
		w.wait(24 * time.Hour)
		require.Equal(w, 6, w.storage.callsOf("provision"))
		for _, change := range []struct {
			claim func(*v1.PersistentVolumeClaim)
			calls int
		}{
			{func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"path": "x"} }, 9},
			{func(c *v1.PersistentVolumeClaim) { c.Annotations["example.com/path"] = "x" }, 12},
			{func(c *v1.PersistentVolumeClaim) { c.Annotations["volume.kubernetes.io/x"] = "x" }, 12},
			{func(c *v1.PersistentVolumeClaim) { c.Annotations["k8s.io/x"] = "x" }, 12},
			{func(c *v1.PersistentVolumeClaim) { c.Annotations["kubectl.kubernetes.io/x"] = "x" }, 12},
			{func(c *v1.PersistentVolumeClaim) { c.Annotations["my-k8s.io/x"] = "x" }, 15},
		} {
			w.updateClaim("a", change.claim)
			w.wait(24 * time.Hour)
			require.Equal(w, change.calls, w.storage.callsOf("provision"))
		}
	})
}

// TestCorrectedClaim: an infeasible claim is retried at once with another label.
func TestCorrectedClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", failing(1, errors.Join(errors.New("the label path is required"), volume.ErrInfeasible), false))
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(time.Second)
		w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Labels = map[string]string{"path": "x"} })
		w.wait(time.Second)
		require.Len(w, w.volumes(), 1)
	})
}

// TestRefusedThreshold: an object that the API server refuses counts as a failure, and the storage that
// was made for it does not count as a success.
func TestRefusedThreshold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.ProvisionThreshold = 3
		remove := w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes"}, Failure: refusal})
		class := w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(24 * time.Hour)
		require.Equal(w, 3, w.storage.callsOf("provision"))
		require.Len(w, w.eventsOf("ProvisioningFailed"), 1)
		require.Empty(w, w.storage.names())
		remove()
		require.NoError(w, w.cluster.StorageClasses().Delete(w.Context(), class.Name, metav1.DeleteOptions{}))
		w.createClass(newClass("c"))
		w.finish()
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
	})
}

// TestTakenName: while the object of another claim has the name of a claim's volume, no call follows
// the first one, and the controller reports it once.
func TestTakenName(t *testing.T) {
	for _, h := range []history{isNew, guardedByTenant} {
		inWorld(t, func(w *world) {
			w.config.VolumeName = func(*v1.PersistentVolumeClaim) string { return "v" }
			w.config.ProvisionThreshold = 1
			w.storage.on("provision", slowly(time.Second))
			w.createClass(newClass("c"))
			h.begin(w, newClaim("a", "c"))
			w.wait(500 * time.Millisecond)
			other := newClaim("b", "")
			other.UID = "gone"
			w.createVolume("v", other, func(pv *v1.PersistentVolume) {
				pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
			})
			w.wait(24 * time.Hour)
			require.Equal(w, 1, w.storage.callsOf("provision"))
			require.Len(w, w.eventsOf("ProvisioningFailed"), 1)
			require.Contains(w, w.eventsOf("ProvisioningFailed")[0], "belongs to another claim")
			require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), "v", metav1.DeleteOptions{}))
			w.finish()
			require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		})
	}
}

// TestVolumeWithoutReferenceEnds: the binder removes the reference of an unbound volume in deletion. After the end of
// the volume its claim gets another one.
func TestVolumeWithoutReferenceEnds(t *testing.T) {
	for _, isAnnotated := range []bool{true, false} { // a user has removed the annotation
		inWorld(t, func(w *world) {
			w.createClass(newClass("c"))
			name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
			w.start()
			w.wait(time.Second)
			w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Finalizers = []string{"example.com/other"} })
			require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
			w.updateVolume(name, func(pv *v1.PersistentVolume) {
				pv.Spec.ClaimRef = nil
				if !isAnnotated {
					delete(pv.Annotations, provision.ProvisionedByAnnotation)
				}
			})
			w.wait(time.Hour)
			w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
			w.finish()
			require.Equal(w, name, w.claim("a").Spec.VolumeName)
			require.Equal(w, []string{name}, w.storage.names())
		})
	}
}

// TestVolumeRefersToAnotherClaim: a user makes the volume of an unbound claim refer to another claim. After the end of
// the volume the first claim gets another one.
func TestVolumeRefersToAnotherClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		other := w.createClaim(newClaim("b", ""))
		w.start()
		w.wait(time.Second)
		w.updateVolume(name, func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "b", UID: other.UID}
		})
		w.bind()
		require.Equal(w, name, w.claim("b").Spec.VolumeName)
		w.deleteClaim("b")
		w.bind()
		w.wait(time.Hour)
		w.finish()
		require.Equal(w, name, w.claim("a").Spec.VolumeName)
		require.Equal(w, []string{name}, w.storage.names())
	})
}

// TestReferenceWithWrongName: a volume refers to a claim by its UID and another name. Its end during a call of Provision
// for the claim does not begin a second one.
func TestReferenceWithWrongName(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", slowly(time.Minute))
		w.createClass(newClass("c"))
		claim := w.createClaim(newClaim("a", "c"))
		wrong := claim.DeepCopy()
		wrong.Name = "x"
		w.createVolume("other", wrong, func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
		})
		w.start()
		w.wait(10 * time.Second)
		w.endVolume("other")
		require.Equal(w, 1, w.last.Remembered())
		w.finish()
		require.Equal(w, 1, w.storage.callsOf("provision"))
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
	})
}

// TestTakenNameThreshold: the threshold does not count attempts whose name is taken before the first call: the end of
// the volume of that name is no change of the claim.
func TestTakenNameThreshold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.VolumeName = func(*v1.PersistentVolumeClaim) string { return "v" }
		w.config.ProvisionThreshold = 1
		w.createClass(newClass("c"))
		other := newClaim("b", "")
		other.UID = "gone"
		w.createVolume("v", other, func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
		})
		w.start()
		w.wait(time.Second)
		w.createClaim(newClaim("a", "c"))
		w.wait(time.Hour)
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), "v", metav1.DeleteOptions{}))
		w.finish()
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
	})
}

// TestDeleteThreshold: the attempts to delete end after a number of failures.
func TestDeleteThreshold(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.DeleteThreshold = 3
		w.released(errors.New("busy"))
		w.storage.on("delete", failing(1000, errors.New("busy"), false))
		w.wait(24 * time.Hour)
		require.Equal(w, 3, w.storage.callsOf("delete"))
		require.Len(w, w.eventsOf("VolumeFailedDelete"), 1)
	})
}

// TestIgnoredVolume: the volume of another provisioner stays. If none deletes it, as after the server has moved, the volume
// has an event.
func TestIgnoredVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		name := w.released(&volume.IgnoredError{Reason: "another server"})
		w.storage.on("delete", failing(1000, &volume.IgnoredError{Reason: "another server"}, false))
		w.wait(4 * time.Minute)
		require.Empty(w, w.eventsOf("VolumeFailedDelete"), "another provisioner has time")
		w.wait(24 * time.Hour)
		require.Equal(w, 2, w.storage.callsOf("delete"))
		require.Len(w, w.eventsOf("VolumeFailedDelete"), 1)
		require.Contains(w, w.eventsOf("VolumeFailedDelete")[0], "no provisioner has deleted the storage: ignored because another server")
		require.NotNil(w, w.volume(name))
	})
}

// TestDeletionGuard: a volume is kept while the guard refuses; a resync asks it again.
func TestDeletionGuard(t *testing.T) {
	inWorld(t, func(w *world) {
		var mu sync.Mutex
		permits := false
		w.config.Resync = time.Hour
		w.config.DeletionGuard = func(context.Context, *v1.PersistentVolume) bool {
			mu.Lock()
			defer mu.Unlock()
			return permits
		}
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(time.Second)
		w.bind()
		w.deleteClaim("a")
		w.bind()
		w.wait(10 * time.Hour)
		require.Zero(w, w.storage.callsOf("delete"))
		mu.Lock()
		permits = true
		mu.Unlock()
		w.wait(2 * time.Hour)
		require.Equal(w, 1, w.storage.callsOf("delete"))
	})
}

// TestVolumeFinalizer: the finalizer comes to bound volumes and goes with the policy, and keeps the
// object of a volume that a user deletes.
func TestVolumeFinalizer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createClass(newClass("c"))
		w.config.UnguardedVolumes = true
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		_, end := w.start()
		w.wait(time.Second)
		w.bind()
		require.NotContains(w, w.volume(name).Finalizers, provision.VolumeFinalizer)
		end()
		w.config.UnguardedVolumes = false
		_, end = w.start()
		w.wait(time.Second)
		require.Contains(w, w.volume(name).Finalizers, provision.VolumeFinalizer)
		w.updateVolume(name, func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
		})
		w.wait(time.Second)
		require.NotContains(w, w.volume(name).Finalizers, provision.VolumeFinalizer)
		w.updateVolume(name, func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		})
		w.wait(time.Second)
		require.Contains(w, w.volume(name).Finalizers, provision.VolumeFinalizer)
		end()
		w.config.UnguardedVolumes = true
		_, end = w.start()
		w.wait(time.Second)
		require.NotContains(w, w.volume(name).Finalizers, provision.VolumeFinalizer)
		end()
		w.config.UnguardedVolumes = false
		w.start()
		w.wait(time.Second)

		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), name, metav1.DeleteOptions{}))
		w.finish()
		require.NotNil(w, w.volume(name))
		require.Zero(w, w.storage.callsOf("delete"))
		w.deleteClaim("a")
		w.finish()
		w.checkNothingLeft()
	})
}

// TestStaticVolume: a static volume of the CSI driver is guarded and deleted as one that was
// provisioned.
func TestStaticVolume(t *testing.T) {
	for name, want := range map[string]int{driver: 1, "another": 0} {
		inWorld(t, func(w *world) {
			claim := newClaim("a", "")
			claim.UID = "gone"
			w.createVolume("v", claim, func(pv *v1.PersistentVolume) {
				pv.Annotations, pv.Spec.NFS = nil, nil
				pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: name, VolumeHandle: "h"}
			})
			w.start()
			w.wait(time.Second)
			require.Equal(w, want, w.storage.callsOf("delete"))
		})
	}
}

func TestMetrics(t *testing.T) {
	inWorld(t, func(w *world) {
		metrics := metricstest.New(t)
		w.config.Metrics, w.config.Backoff = metrics, 5*time.Second
		w.storage.on("provision", failing(1, errors.New("fails"), false))
		w.storage.on("delete", failing(1, errors.New("fails"), false))
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.finish()
		w.deleteClaim("a")
		w.finish()
		require.Equal(w, map[string]int{
			"controller_persistentvolumeclaim_provision_total class=c source=":            1,
			"controller_persistentvolumeclaim_provision_failed_total class=c source=":     1,
			"controller_persistentvolumeclaim_provision_duration_seconds class=c source=": 1,
			"controller_persistentvolume_delete_total class=c":                            1,
			"controller_persistentvolume_delete_failed_total class=c":                     1,
			"controller_persistentvolume_delete_duration_seconds class=c":                 1,
		}, metrics.Take())
		took := metrics.Time("controller_persistentvolumeclaim_provision_duration_seconds class=c source=")
		require.Equal(w, 5*time.Second, took.Truncate(time.Second))
	})
}

// TestProgress: a receiver in the context of Run gets the calls that take long.
func TestProgress(t *testing.T) {
	inWorld(t, func(w *world) {
		var reports []string
		w.steps = progress.Sparse(func(r progress.Report) { reports = append(reports, r.String()) })
		w.storage.on("provision", slowly(5*time.Second))
		w.storage.on("delete", slowly(5*time.Second))
		w.createClass(newClass("c"))
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.start()
		w.finish()
		w.deleteClaim("a")
		w.finish()
		require.Equal(w, []string{
			"provision " + name + ": 1s", "provision " + name + ": ended after 5s",
			"delete " + name + ": 1s", "delete " + name + ": ended after 5s",
		}, reports)
	})
}

// TestPanic: a panic of the Provisioner counts as an uncertain error of one claim.
func TestPanic(t *testing.T) {
	inWorld(t, func(w *world) {
		calls := 0
		w.storage.on("provision", func(context.Context, string) (early, late error) {
			if calls++; calls == 1 {
				panic("a bug")
			}
			return nil, nil
		})
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.finish()
		require.Contains(w, w.eventsOf("ProvisioningFailed")[0], "a bug")
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
	})
}

// TestPanicOfGuard: a panic of the DeletionGuard, before a call of the Provisioner or during it, is a failure, and no later
// call waits for its end.
func TestPanicOfGuard(t *testing.T) {
	for last := range 6 {
		inWorld(t, func(w *world) {
			w.config.Calls = 1
			calls := 0
			w.config.DeletionGuard = func(context.Context, *v1.PersistentVolume) bool {
				if calls++; calls == last+1 {
					panic("a bug")
				}
				return true
			}
			w.createClass(newClass("c"))
			w.createClaim(newClaim("a", "c"))
			w.start()
			w.wait(time.Second)
			w.bind()
			w.deleteClaim("a")
			w.finish()
			w.createClaim(newClaim("b", "c"))
			w.finish()
			require.Equal(w, v1.ClaimBound, w.claim("b").Status.Phase)
		})
	}
}

// TestTimeout: the context of a call ends, and the call is repeated: storage may exist.
func TestTimeout(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Timeout = time.Minute
		w.storage.on("provision", slowly(time.Hour))
		w.createClass(newClass("c"))
		w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(2 * time.Minute)
		w.storage.on("provision", nil)
		w.deleteClaim("a")
		w.finish()
		w.checkNothingLeft()
		require.GreaterOrEqual(w, w.storage.callsOf("provision"), 2)
	})
}

// TestFinalizersOfOtherPrograms: a volume of another program that provisioned with the same name goes with its
// storage, with all finalizers that guard it.
func TestFinalizersOfOtherPrograms(t *testing.T) {
	for _, own := range []string{"", "kubernetes.io/pv-controller", "example.com/guard"} {
		inWorld(t, func(w *world) {
			w.createClass(newClass("c"))
			name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
			w.config.VolumeFinalizer = own
			w.start()
			w.wait(time.Second)
			w.bind()
			w.updateVolume(name, func(pv *v1.PersistentVolume) {
				for _, finalizer := range []string{provision.VolumeFinalizer, "kubernetes.io/pv-controller"} {
					if !slices.Contains(pv.Finalizers, finalizer) {
						pv.Finalizers = append(pv.Finalizers, finalizer)
					}
				}
			})
			w.deleteClaim("a")
			w.wait(time.Minute)
			w.bind()
			w.wait(time.Minute)
			if pv := w.volume(name); pv != nil {
				require.Subset(w, []string{"kubernetes.io/pv-protection"}, pv.Finalizers)
			}
			require.Equal(w, 1, w.storage.callsOf("delete"))
		})
	}
}
