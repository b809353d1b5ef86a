package provision_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// finish lets the binder and the controller work until nothing is left to do.
func (w *world) finish() {
	w.Helper()
	for range 4 {
		w.bind()
		w.wait(10 * time.Minute)
	}
}

// checkNothingLeft checks that no claim, no volume and no storage is left.
func (w *world) checkNothingLeft() {
	w.Helper()
	require.Empty(w, w.storage.names())
	require.Empty(w, w.volumes())
	claims, err := w.cluster.PersistentVolumeClaims("").List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	require.Empty(w, claims.Items)
}

// slowly returns calls that take a time.
func slowly(d time.Duration) func(context.Context, string) (early, late error) {
	return func(ctx context.Context, _ string) (early, late error) {
		select {
		case <-time.After(d):
			return nil, nil
		case <-ctx.Done():
			return ctx.Err(), nil
		}
	}
}

// failing returns calls that fail with an error, the first n times, after their effect or before it.
func failing(n int, err error, isLate bool) func(context.Context, string) (early, late error) {
	return func(context.Context, string) (early, late error) {
		n--
		switch {
		case n < 0:
			return nil, nil
		case isLate:
			return nil, err
		}
		return err, nil
	}
}

// TestClaimIsDeletedDuringProvision: the storage that is made for a claim in deletion is deleted by
// its policy.
func TestClaimIsDeletedDuringProvision(t *testing.T) {
	fails := errors.New("fails")
	for name, calls := range map[string]func(context.Context, string) (early, late error){
		"succeeds":               slowly(time.Minute),
		"uncertain, made":        failing(3, volume.AsUncertain(fails), true),
		"uncertain, not made":    failing(3, volume.AsUncertain(fails), false),
		"the context ends, made": failing(3, context.DeadlineExceeded, true),
		"final":                  failing(1, fails, false),
	} {
		for _, restarts := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restarts), func(t *testing.T) {
				inWorld(t, func(w *world) {
					w.storage.on("provision", calls)
					w.createClass(newClass("c"))
					w.createClaim(newClaim("a", "c"))
					_, end := w.start()
					w.wait(100 * time.Millisecond)
					w.deleteClaim("a")
					synctest.Wait()
					if restarts {
						end()
						w.start()
					}
					w.finish()
					w.checkNothingLeft()
				})
			})
		}
	}
}

// TestClaimIsDeletedDuringProvisionRetain: the volume of the policy Retain leads to its storage.
func TestClaimIsDeletedDuringProvisionRetain(t *testing.T) {
	inWorld(t, func(w *world) {
		class := newClass("c")
		retain := v1.PersistentVolumeReclaimRetain
		class.ReclaimPolicy = &retain
		w.storage.on("provision", slowly(time.Minute))
		w.createClass(class)
		name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
		w.start()
		w.wait(time.Second)
		w.deleteClaim("a")
		w.finish()
		require.Nil(w, w.claim("a"))
		require.Equal(w, []string{name}, w.storage.names())
		require.Equal(w, v1.VolumeReleased, w.volume(name).Status.Phase)
		require.NotContains(w, w.volume(name).Finalizers, provision.VolumeFinalizer)
	})
}

// TestCrashAtEachCall: the controller crashes before or after the effect of each call to the API
// server in the life of a claim, and during each call of the storage. The claim lives or is deleted
// then.
func TestCrashAtEachCall(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, deleted := range []bool{false, true} {
			for n := range 16 {
				t.Run(fmt.Sprintf("call %d, late %v, deleted %v", n, late, deleted), func(t *testing.T) {
					inWorld(t, func(w *world) { crashAtCall(w, n, late, deleted) })
				})
			}
		}
	}
}

func crashAtCall(w *world, n int, late, deleted bool) {
	w.createClass(newClass("c"))
	w.server.Inject(apitest.Fault{
		When: func(call apitest.Call) bool { return call.Verb != apitest.Watch }, Skip: n, Times: 1, Crash: true, AfterEffect: late,
	})
	cluster, end := w.start()
	w.wait(time.Second)
	claim := w.createClaim(newClaim("a", "c"))
	w.wait(time.Second)
	w.bind()
	restart := func() {
		select {
		case <-cluster.Crashed():
			if deleted && w.claim("a") != nil && w.claim("a").DeletionTimestamp == nil {
				w.deleteClaim("a")
			}
			end()
			cluster, end = w.start()
		default:
		}
	}
	restart()
	w.finish()
	if !deleted {
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
		require.Equal(w, []string{"pvc-" + string(claim.UID)}, w.storage.names())
	}
	if w.claim("a") != nil {
		w.deleteClaim("a")
	}
	w.finish()
	restart()
	w.finish()
	w.checkNothingLeft()
}

// TestKilledBetweenStorageAndObject: the next run stores the volume, or the claim was deleted and the
// storage goes with it.
func TestKilledBetweenStorageAndObject(t *testing.T) {
	for _, deleted := range []bool{false, true} {
		t.Run(fmt.Sprint("deleted ", deleted), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.createClass(newClass("c"))
				name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
				w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes"}, Times: 1, Crash: true})
				w.start()
				w.wait(time.Second)
				require.Equal(w, []string{name}, w.storage.names())
				require.Empty(w, w.volumes())
				require.Contains(w, w.claim("a").Finalizers, provision.ClaimFinalizer)
				if deleted {
					w.deleteClaim("a")
				}
				w.start()
				w.finish()
				if deleted {
					w.checkNothingLeft()
					return
				}
				require.NotNil(w, w.volume(name))
				require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
			})
		})
	}
}

// refusal is the error of an object that the API server refuses for good.
func refusal(apitest.Call) error {
	return apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolume"}, "x", nil)
}

// TestObjectIsRefused: the storage of a volume that the API server or the binder refuses is deleted,
// and an event names the reason. The claim can be deleted.
func TestObjectIsRefused(t *testing.T) {
	tests := map[string]struct {
		prepare func(*world)
		change  func(*v1.PersistentVolume)
		want    string
	}{
		"by the API server": {func(w *world) {
			w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes"}, Failure: refusal})
		}, nil, "is invalid"},
		"without a source": {nil, func(pv *v1.PersistentVolume) { pv.Spec.NFS = nil }, "without a source"},
		"too small": {nil, func(pv *v1.PersistentVolume) {
			pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Mi")}
		}, "spec.capacity"},
		"another mode": {nil, func(pv *v1.PersistentVolume) {
			mode := v1.PersistentVolumeBlock
			pv.Spec.VolumeMode = &mode
		}, "spec.volumeMode"},
		"other access modes": {nil, func(pv *v1.PersistentVolume) {
			pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadOnlyMany}
		}, "spec.accessModes"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				if test.prepare != nil {
					test.prepare(w)
				}
				w.config.Provisioner = changing{w.storage, test.change}
				w.storage.on("delete", failing(1, errors.New("busy"), false))
				w.createClass(newClass("c"))
				w.createClaim(newClaim("a", "c"))
				w.start()
				w.wait(time.Minute)
				require.Empty(w, w.storage.names())
				require.Empty(w, w.volumes())
				require.Contains(w, w.eventsOf("ProvisioningFailed")[0], test.want)
				require.Equal(w, 1, w.storage.callsOf("provision"), "it is retried rarely")
				w.deleteClaim("a")
				w.finish()
				w.checkNothingLeft()
			})
		})
	}
}

// TestRefusedAndStored: another controller stores the object while this one waits for the permission to
// discard the storage.
func TestRefusedAndStored(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Calls = 1
		w.server.Inject(apitest.Fault{
			Call: apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes", Identity: "provisioner"}, Times: 1,
			Failure: func(apitest.Call) error {
				return apierrors.NewInvalid(schema.GroupKind{Kind: "PersistentVolume"}, "x", nil)
			},
		})
		w.storage.on("provision", slowly(time.Minute))
		w.createClass(newClass("c"))
		claim := w.createClaim(newClaim("a", "c"))
		w.start()
		w.wait(time.Second)
		w.createClaim(newClaim("b", "c"))
		w.wait(time.Minute)
		require.Equal(w, 2, w.storage.callsOf("provision"), "that of b runs, and the discard waits")
		name := "pvc-" + string(claim.UID)
		w.createVolume(name, claim, func(*v1.PersistentVolume) {})
		w.wait(2 * time.Minute)
		require.Zero(w, w.storage.callsOf("delete"), "the claim is not bound yet")
		w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Status.Phase = v1.VolumeBound })
		w.finish()
		require.Zero(w, w.storage.callsOf("delete"))
		require.Equal(w, v1.ClaimBound, w.claim("a").Status.Phase)
	})
}

// changing is a storage whose volumes are changed.
type changing struct {
	*storage
	change func(*v1.PersistentVolume)
}

func (c changing) Provision(ctx context.Context, o provision.Options) (*v1.PersistentVolume, error) {
	pv, err := c.storage.Provision(ctx, o)
	if err == nil && c.change != nil {
		c.change(pv)
	}
	return pv, err
}

// TestObjectIsStoredLater: while the API server does not answer, no other volume is provisioned.
func TestObjectIsStoredLater(t *testing.T) {
	for name, failure := range map[string]apitest.Failure{
		"unavailable": apitest.Unavailable, "internal error": apitest.InternalError, "unauthorized": apitest.Unauthorized, "forbidden": apitest.Forbidden,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				remove := w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create, Resource: "persistentvolumes"}, Failure: failure})
				w.createClass(newClass("c"))
				name := "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
				w.start()
				w.wait(48 * time.Hour)
				require.Equal(w, []string{name}, w.storage.names())
				remove()
				w.finish()
				require.NotNil(w, w.volume(name))
				require.Equal(w, 1, w.storage.callsOf("provision"))
				require.Zero(w, w.storage.callsOf("delete"))
			})
		})
	}
}

// TestTwoControllers: two controllers of one name share the claims by mistake. Each claim gets one
// volume, and nothing is left of it.
func TestTwoControllers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.on("provision", slowly(time.Second))
		w.createClass(newClass("c"))
		w.start()
		w.start()
		w.wait(time.Second)
		for n := range 10 {
			w.createClaim(newClaim(fmt.Sprint("claim-", n), "c"))
		}
		w.finish()
		require.Len(w, w.storage.names(), 10)
		require.Len(w, w.volumes(), 10)
		for n := range 10 {
			require.Equal(w, v1.ClaimBound, w.claim(fmt.Sprint("claim-", n)).Status.Phase)
			w.deleteClaim(fmt.Sprint("claim-", n))
		}
		w.finish()
		w.checkNothingLeft()
	})
}

// TestClaimOfTheSameName: a claim is deleted during its Provision and created again with its name. The
// new one gets another volume, at the same time.
func TestClaimOfTheSameName(t *testing.T) {
	for _, isGone := range []bool{false, true} { // a user has removed the finalizer
		t.Run(fmt.Sprint("gone ", isGone), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.storage.on("provision", slowly(time.Minute))
				w.createClass(newClass("c"))
				first := w.createClaim(newClaim("a", "c"))
				w.start()
				w.wait(time.Second)
				w.deleteClaim("a")
				if isGone {
					w.updateClaim("a", func(c *v1.PersistentVolumeClaim) { c.Finalizers = nil })
				} else {
					w.wait(time.Minute)
				}
				second := w.createClaim(newClaim("a", "c"))
				w.finish()
				require.NotEqual(w, first.UID, second.UID)
				require.Equal(w, []string{"pvc-" + string(second.UID)}, w.storage.names())
				require.Equal(w, "pvc-"+string(second.UID), w.claim("a").Spec.VolumeName)
				require.Len(w, w.volumes(), 1)
			})
		})
	}
}

// released provisions a claim and deletes it, while the deletion of the storage fails.
func (w *world) released(err error) (name string) {
	w.storage.on("delete", failing(1, err, false))
	w.createClass(newClass("c"))
	name = "pvc-" + string(w.createClaim(newClaim("a", "c")).UID)
	w.config.Backoff = time.Hour
	w.start()
	w.wait(time.Second)
	w.bind()
	w.deleteClaim("a")
	w.bind()
	w.wait(time.Second)
	require.Equal(w, 1, w.storage.callsOf("delete"))
	return name
}

// TestPolicyChangesBeforeDeletion: the API server has the policy Retain, and the cache does not have
// it yet.
func TestPolicyChangesBeforeDeletion(t *testing.T) {
	inWorld(t, func(w *world) {
		name := w.released(errors.New("busy"))
		release := w.server.HoldEvents("")
		w.updateVolume(name, func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
		})
		w.wait(2 * time.Hour)
		require.Equal(w, 1, w.storage.callsOf("delete"))
		release()
		w.finish()
		require.Equal(w, []string{name}, w.storage.names())
		require.NotContains(w, w.volume(name).Finalizers, provision.VolumeFinalizer)
		w.updateVolume(name, func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		})
		w.finish()
		w.checkNothingLeft()
	})
}

// TestPolicyChangesDuringDeletion: the storage is gone, so that its volume goes, too.
func TestPolicyChangesDuringDeletion(t *testing.T) {
	inWorld(t, func(w *world) {
		name := w.released(errors.New("busy"))
		w.storage.on("delete", slowly(time.Minute))
		w.wait(time.Hour)
		w.updateVolume(name, func(pv *v1.PersistentVolume) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
		})
		w.finish()
		w.checkNothingLeft()
	})
}

// TestClaimLivesAgain: the claim of a released volume exists, by the API server or by the cache. Its
// storage is deleted after the claim.
func TestClaimLivesAgain(t *testing.T) {
	for _, isStale := range []bool{false, true} {
		t.Run(fmt.Sprint("stale ", isStale), func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.createClass(newClass("c"))
				w.start()
				w.wait(time.Second)
				if isStale {
					w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Times: 1, Delay: 2 * time.Hour})
				}
				claim := newClaim("a", "")
				claim.Spec.VolumeName = "v"
				claim = w.createClaim(claim)
				w.createVolume("v", claim, func(*v1.PersistentVolume) {})
				w.storage.volumes["v"] = claim.UID
				w.wait(time.Hour)
				require.Zero(w, w.storage.callsOf("delete"))
				w.wait(2 * time.Hour)
				require.Zero(w, w.storage.callsOf("delete"))
				w.deleteClaim("a")
				w.finish()
				w.checkNothingLeft()
			})
		})
	}
}

// TestVolumeIsReadLast: the state of the claim is open again after the wait for the permission of the
// deletion. The claim is read before the volume: a change of the policy during a slow read counts.
func TestVolumeIsReadLast(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Calls, w.config.MaxBackoff = 1, time.Second
		w.storage.on("provision", slowly(time.Minute))
		var last string
		w.storage.check = func(string) {
			for _, call := range w.server.Calls(apitest.Call{Identity: "provisioner"}) {
				if call.Verb == apitest.Get {
					last = call.Resource
				}
			}
		}
		w.createClass(newClass("c"))
		w.createClaim(newClaim("b", "c"))
		w.start()
		w.wait(100 * time.Millisecond)
		require.Equal(w, 1, w.storage.callsOf("provision"), "the deletion waits for its end")
		w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Resource: "persistentvolumeclaims", Name: "a"}, Failure: apitest.InternalError})
		w.createClaim(newClaim("a", "c"))
		before := newClaim("a", "")
		before.UID = "before"
		w.createVolume("v", before, func(*v1.PersistentVolume) {})
		w.wait(time.Minute)
		require.Equal(w, 1, w.storage.callsOf("delete"))
		require.Equal(w, "persistentvolumes", last)
	})
}

// createVolume creates a released volume that the provisioner has provisioned for a claim.
func (w *world) createVolume(name string, claim *v1.PersistentVolumeClaim, change func(*v1.PersistentVolume)) {
	w.Helper()
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{provision.ProvisionedByAnnotation: driver}},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimDelete, AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			ClaimRef: &v1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID},
		},
	}
	pv.Spec.NFS = &v1.NFSVolumeSource{Server: "server", Path: "/" + name}
	change(pv)
	_, err := w.cluster.PersistentVolumes().Create(w.Context(), pv, metav1.CreateOptions{})
	require.NoError(w, err)
	w.updateVolume(name, func(pv *v1.PersistentVolume) { pv.Status.Phase = v1.VolumeReleased })
}

// TestVolumeInUse: the storage of a volume is not deleted while the API server shows a user of it.
func TestVolumeInUse(t *testing.T) {
	name := "v"
	old := metav1.Now()
	newPod := func(node string, phase v1.PodPhase) *v1.Pod {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", CreationTimestamp: old}}
		pod.Spec.NodeName = node
		pod.Spec.Containers = []v1.Container{{Name: "c", Image: "i"}}
		pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}}}
		pod.Status.Phase = phase
		return pod
	}
	withPod := func(node string, phase v1.PodPhase) func(*world) {
		return func(w *world) {
			pod, err := w.cluster.Pods(namespace).Create(w.Context(), newPod(node, phase), metav1.CreateOptions{})
			require.NoError(w, err)
			pod.Status.Phase = phase
			_, err = w.cluster.Pods(namespace).UpdateStatus(w.Context(), pod, metav1.UpdateOptions{})
			require.NoError(w, err)
		}
	}
	asCSI := func(pv *v1.PersistentVolume) {
		pv.Spec.NFS, pv.Spec.CSI = nil, &v1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "h"}
	}
	withAttachment := func(w *world) {
		attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "x"}, Spec: storagev1.VolumeAttachmentSpec{
			Attacher: driver, NodeName: "n", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}}
		_, err := w.cluster.VolumeAttachments().Create(w.Context(), attachment, metav1.CreateOptions{})
		require.NoError(w, err)
	}
	withNode := func(status v1.NodeStatus) func(*world) {
		return func(w *world) {
			node, err := w.cluster.Nodes().Create(w.Context(), &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
			require.NoError(w, err)
			node.Status = status
			_, err = w.cluster.Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{})
			require.NoError(w, err)
		}
	}
	const unique = "kubernetes.io/csi/" + driver + "^h"
	tests := map[string]struct {
		use    func(*world)
		volume func(*v1.PersistentVolume)
		inUse  bool
	}{
		"a running pod":            {withPod("n", v1.PodRunning), nil, true},
		"a pod without a node":     {withPod("", v1.PodPending), nil, false},
		"a finished pod":           {withPod("n", v1.PodSucceeded), nil, false},
		"a pod of a new claim":     {func(w *world) { w.createClaim(newClaim("a", "")); w.wait(time.Second); withPod("n", v1.PodRunning)(w) }, nil, false},
		"a pod before a new claim": {func(w *world) { withPod("n", v1.PodRunning)(w); w.wait(time.Second); w.createClaim(newClaim("a", "")) }, nil, true},
		"an attachment":            {withAttachment, asCSI, true},
		"an attached node":         {withNode(v1.NodeStatus{VolumesAttached: []v1.AttachedVolume{{Name: unique}}}), asCSI, true},
		"a node that uses it":      {withNode(v1.NodeStatus{VolumesInUse: []v1.UniqueVolumeName{unique}}), asCSI, true},
		"other nodes":              {withNode(v1.NodeStatus{VolumesInUse: []v1.UniqueVolumeName{"x/y/z"}}), asCSI, false},
	}
	for title, test := range tests {
		t.Run(title, func(t *testing.T) {
			inWorld(t, func(w *world) {
				test.use(w)
				claim := newClaim("a", "")
				claim.UID = types.UID("gone")
				if test.volume == nil {
					test.volume = func(*v1.PersistentVolume) {}
				}
				w.createVolume(name, claim, test.volume)
				w.start()
				w.wait(time.Hour)
				if !test.inUse {
					require.Equal(w, 1, w.storage.callsOf("delete"))
					return
				}
				require.Zero(w, w.storage.callsOf("delete"))
				require.Len(w, w.eventsOf("VolumeDelete"), 1)
				require.Empty(w, w.eventsOf("VolumeFailedDelete"))
				_ = w.cluster.Pods(namespace).Delete(w.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
				_ = w.cluster.VolumeAttachments().Delete(w.Context(), "x", metav1.DeleteOptions{})
				_ = w.cluster.Nodes().Delete(w.Context(), "n", metav1.DeleteOptions{})
				w.wait(time.Hour)
				require.Equal(w, 1, w.storage.callsOf("delete"))
				require.True(w, slices.ContainsFunc(w.server.Calls(apitest.Call{}), func(c apitest.Call) bool { return c.Verb == apitest.List && c.Resource == "pods" }))
			})
		})
	}
}

// TestReferenceToNoName: storage is kept while the reference of its volume does not name a claim, and an event names
// the reason.
func TestReferenceToNoName(t *testing.T) {
	inWorld(t, func(w *world) {
		for name, ref := range map[string]v1.ObjectReference{"nameless": {Namespace: namespace}, "homeless": {Name: "a"}, "empty": {}} {
			claim := newClaim("a", "")
			claim.UID = "gone"
			w.createVolume(name, claim, func(pv *v1.PersistentVolume) {
				ref.UID = "gone"
				pv.Spec.ClaimRef = &ref
			})
		}
		w.start()
		w.wait(time.Hour)
		require.Zero(w, w.storage.callsOf("delete"))
		require.Len(w, w.eventsOf("VolumeFailedDelete"), 3)
		for _, event := range w.eventsOf("VolumeFailedDelete") {
			require.Contains(w, event, "the reference to the claim has no name")
		}
		require.Empty(w, w.server.Calls(apitest.Call{Resource: "persistentvolumeclaims", Verb: apitest.Get}))
	})
}

// TestVolumeChangesUnseen: a released volume whose storage waits for the end of a pod, and whose change the cache has not
// shown, is kept.
func TestVolumeChangesUnseen(t *testing.T) {
	for name, change := range map[string]func(*v1.PersistentVolume, *v1.PersistentVolumeClaim){
		"reference": func(pv *v1.PersistentVolume, b *v1.PersistentVolumeClaim) {
			pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = b.Name, b.UID
		},
		"policy": func(pv *v1.PersistentVolume, _ *v1.PersistentVolumeClaim) {
			pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				claim := newClaim("a", "")
				claim.UID = "gone"
				w.createVolume("v", claim, func(*v1.PersistentVolume) {})
				pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
				pod.Spec.NodeName, pod.Spec.Containers = "node", []v1.Container{{Name: "c", Image: "i"}}
				pod.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "a"}}}}
				pods := w.cluster.Pods(namespace)
				_, err := pods.Create(w.Context(), pod, metav1.CreateOptions{})
				require.NoError(w, err)
				b := w.createClaim(newClaim("b", ""))
				w.start()
				w.wait(time.Minute)
				w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumes", Delay: 24 * time.Hour})
				pv := w.volume("v")
				change(pv, b)
				_, err = w.cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
				require.NoError(w, err)
				require.NoError(w, pods.Delete(w.Context(), "p", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
				w.wait(2 * time.Hour)
				require.Zero(w, w.storage.callsOf("delete"))
			})
		})
	}
}

// TestReservedVolumesEnd: the end of volumes that are reserved for claims by name concerns no claim.
func TestReservedVolumesEnd(t *testing.T) {
	inWorld(t, func(w *world) {
		const count = 50
		for n := range count {
			w.createVolume(fmt.Sprint("v-", n), newClaim(fmt.Sprint("claim-", n), ""), func(pv *v1.PersistentVolume) {
				pv.Finalizers, pv.Spec.ClaimRef.UID = nil, ""
			})
		}
		w.start()
		w.wait(time.Minute)
		release := w.server.HoldEvents("")
		for n := range count {
			require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), fmt.Sprint("v-", n), metav1.DeleteOptions{}))
		}
		unprotectVolumes(w.Context(), w.cluster)
		release()
		w.wait(time.Minute)
		require.Empty(w, w.volumes())
	})
}
