package bind_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/bind"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/metricstest"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestInvalidConfig(t *testing.T) {
	valid := bind.Config{Cluster: apitest.NewServer(apitest.Config{}).Direct()}
	tests := map[string]func(*bind.Config){
		`bind: Config.Cluster: Required value: has the claims and the volumes`: func(c *bind.Config) { c.Cluster = nil },
		`bind: Config.Workers: Invalid value: -1: must be at least 0`:          func(c *bind.Config) { c.Workers = -1 },
		`bind: Config.Calls: Invalid value: -1: must be at least 0`:            func(c *bind.Config) { c.Calls = -1 },
		`bind: Config.Resync: Invalid value: "-1ns": must be at least 0`:       func(c *bind.Config) { c.Resync = -1 },
		`bind: Config.Timeout: Invalid value: "-1ns": must be at least 0`:      func(c *bind.Config) { c.Timeout = -1 },
		`bind: Config.Backoff: Invalid value: "-1ns": must be at least 0`:      func(c *bind.Config) { c.Backoff = -1 },
		`bind: Config.MaxBackoff: Invalid value: "-1ns": must be at least 0`:   func(c *bind.Config) { c.MaxBackoff = -1 },
	}
	for want, change := range tests {
		config := valid
		change(&config)
		controller, err := bind.New(config)
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(*field.Error))
		require.Nil(t, controller)
	}
}

func TestRunsOnce(t *testing.T) {
	inWorld(t, func(w *world) {
		controller, err := bind.New(bind.Config{Cluster: w.server.Connect("binder")})
		require.NoError(w, err)
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		require.NoError(w, controller.Run(ctx))
		require.EqualError(w, controller.Run(w.Context()), "bind: a controller runs once")
	})
}

// TestFewestWrites pins the writes of a pair, and that an idle controller makes none.
func TestFewestWrites(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("pv", "1Gi"))
		w.createClaim(newClaim("a", "1Gi"))
		w.start()
		w.wait(time.Minute)
		require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
		require.Equal(w, []string{"patch s pv", "patch claims default/a", "patch s/status pv", "patch claims/status default/a"}, w.writes())
		claim, pv := w.claim("a"), w.volume("pv")
		require.Equal(w, map[string]string{bind.BoundByControllerAnnotation: "yes", bind.BindCompletedAnnotation: "yes"}, claim.Annotations)
		require.Equal(w, map[string]string{bind.BoundByControllerAnnotation: "yes"}, pv.Annotations)
		require.Equal(w, pv.Spec.Capacity, claim.Status.Capacity)
		require.Equal(w, pv.Spec.AccessModes, claim.Status.AccessModes)
		require.Equal(w, claim.UID, pv.Spec.ClaimRef.UID)
		require.Equal(w, "v1", pv.Spec.ClaimRef.APIVersion)
		require.NotNil(w, pv.Status.LastPhaseTransitionTime)

		provisioned := newVolume("provisioned", "1Gi") // refers to its claim, as a provisioner writes it
		b := w.createClaim(newClaim("b", "1Gi"))
		w.wait(time.Minute)
		require.Equal(w, []string{"FailedBinding"}, w.reasons())
		require.Empty(w, w.writes())
		provisioned.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "b", UID: b.UID}
		w.createVolume(provisioned)
		w.wait(time.Minute)
		require.Equal(w, "Bound provisioned <- Bound b", w.state("b", "provisioned"))
		require.Equal(w, []string{"patch claims default/b", "patch s/status provisioned", "patch claims/status default/b"}, w.writes())

		w.createVolume(newVolume("spare", "1Gi"))
		w.wait(time.Minute)
		require.Equal(w, []string{"patch s/status spare"}, w.writes())
		w.deleteClaim("a")
		w.wait(time.Minute)
		require.Equal(w, v1.VolumeReleased, w.volume("pv").Status.Phase)
		require.Equal(w, []string{"patch s/status pv"}, w.writes())
		w.wait(24 * time.Hour)
		require.Empty(w, w.writes())
	})
}

// TestDeniedWrites: each write that the API server denies is an event, once, and the binding goes on when it is allowed.
func TestDeniedWrites(t *testing.T) {
	for _, call := range []apitest.Call{
		{Verb: apitest.Patch, Resource: "persistentvolumes"}, {Verb: apitest.Patch, Resource: "persistentvolumeclaims"},
		{Verb: apitest.Patch, Resource: "persistentvolumes", Subresource: "status"}, {Verb: apitest.Patch, Resource: "persistentvolumeclaims", Subresource: "status"},
	} {
		for _, failure := range []apitest.Failure{apitest.Forbidden, apitest.Denied(403), apitest.Denied(406)} {
			inWorld(t, func(w *world) {
				w.createVolume(newVolume("pv", "1Gi"))
				w.createClaim(newClaim("a", "1Gi"))
				allow := w.server.Inject(apitest.Fault{Call: call, Failure: failure})
				w.start()
				w.wait(time.Hour)
				require.NotEqual(w, "Bound pv <- Bound a", w.state("a", "pv"))
				require.Contains(w, w.reasons(), "RequestDenied", "%s", call)
				w.writes()
				w.wait(time.Hour)
				require.Empty(w, w.reasons())
				require.Less(w, len(w.writes()), 40, "each object has its backoff")
				allow()
				w.wait(time.Hour)
				require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
			})
		}
	}
}

// TestManyPairs: workers in parallel bind all claims with four writes for each, and no conflict.
func TestManyPairs(t *testing.T) {
	const pairs = 300
	inWorld(t, func(w *world) {
		for n := range pairs {
			w.createVolume(newVolume(fmt.Sprint("pv-", n), fmt.Sprint(1+n%7, "Gi")))
			w.createClaim(newClaim(fmt.Sprint("c-", n), fmt.Sprint(1+n%7, "Gi")))
		}
		w.start()
		w.wait(time.Minute)
		claims, err := w.cluster.PersistentVolumeClaims("").List(w.Context(), metav1.ListOptions{})
		require.NoError(w, err)
		volumes := map[string]bool{}
		for _, claim := range claims.Items {
			require.Equal(w, v1.ClaimBound, claim.Status.Phase, claim.Name)
			volumes[claim.Spec.VolumeName] = true
			require.Equal(w, claim.UID, w.volume(claim.Spec.VolumeName).Spec.ClaimRef.UID)
			require.Equal(w, claim.Spec.Resources.Requests, claim.Status.Capacity, "the smallest that fits")
		}
		require.Len(w, volumes, pairs)
		require.Len(w, w.writes(), 4*pairs)
	})
}

// TestLateVolumes: volumes that come later wake the claims that they fit, each one.
func TestLateVolumes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		for _, claim := range []*v1.PersistentVolumeClaim{newClaim("large", "9Gi"), newClaim("one", "1Gi"), newClaim("two", "1Gi")} {
			w.createClaim(claim)
		}
		w.wait(time.Minute)
		w.writes()
		w.createVolume(newVolume("a", "1Gi"))
		w.createVolume(newVolume("b", "2Gi"))
		w.wait(time.Minute)
		require.Equal(w, v1.ClaimBound, w.claim("one").Status.Phase)
		require.Equal(w, v1.ClaimBound, w.claim("two").Status.Phase)
		require.Equal(w, v1.ClaimPending, w.claim("large").Status.Phase)
		w.createVolume(newVolume("c", "10Gi"))
		w.wait(time.Minute)
		require.Equal(w, "Bound c <- Bound large", w.state("large", "c"))
		w.deleteClaim("one")
		w.createClaim(newClaim("three", "1Gi"))
		w.wait(time.Minute)
		released := w.claim("two").Spec.VolumeName
		released = map[string]string{"a": "b", "b": "a"}[released]
		w.updateVolume(released, func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil })
		w.wait(time.Minute)
		require.Equal(w, "Bound "+released+" <- Bound three", w.state("three", released))
	})
}

// TestNamedVolume: users name volumes in claims, and claims in volumes, before either exists.
func TestNamedVolume(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		named := newClaim("named", "1Gi")
		named.Spec.VolumeName = "late"
		w.createClaim(named)
		second := newClaim("second", "1Gi")
		second.Spec.VolumeName = "late"
		w.createClaim(second)
		reserved := newVolume("reserved", "9Gi")
		reserved.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "any"}
		w.createVolume(reserved)
		small := newClaim("small", "5Gi")
		small.Spec.VolumeName = "tiny"
		w.createVolume(newVolume("tiny", "1Gi"))
		w.createClaim(small)
		w.wait(time.Minute)
		require.Equal(w, []string{"VolumeMismatch"}, w.reasons())
		require.Equal(w, v1.VolumeAvailable, w.volume("reserved").Status.Phase)
		w.createClaim(newClaim("any", "1Gi"))
		w.createVolume(newVolume("late", "1Gi"))
		w.wait(time.Minute)
		require.Equal(w, "Bound reserved <- Bound any", w.state("any", "reserved"))
		require.NotContains(w, w.volume("reserved").Annotations, bind.BoundByControllerAnnotation)
		require.NotContains(w, w.claim("named").Annotations, bind.BoundByControllerAnnotation)
		ref := w.volume("late").Spec.ClaimRef.Name
		require.Contains(w, []string{"named", "second"}, ref)
		require.Equal(w, "Bound late <- Bound "+ref, w.state(ref, "late"))
		other := map[string]string{"named": "second", "second": "named"}[ref]
		require.Equal(w, v1.ClaimPending, w.claim(other).Status.Phase)
		require.Contains(w, w.reasons(), "FailedBinding")
	})
}

// TestLost: a bound claim whose volume is gone is lost, and found again.
func TestLost(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		pv := newVolume("pv", "1Gi")
		w.createVolume(pv)
		w.createClaim(newClaim("a", "1Gi"))
		w.wait(time.Minute)
		require.NoError(w, w.cluster.PersistentVolumes().Delete(w.Context(), "pv", metav1.DeleteOptions{}))
		w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Finalizers = nil })
		w.wait(time.Minute)
		claim := w.claim("a")
		require.Equal(w, v1.ClaimLost, claim.Status.Phase)
		require.Nil(w, claim.Status.Capacity)
		require.Contains(w, w.reasons(), "ClaimLost")
		w.createVolume(pv)
		w.wait(time.Minute)
		require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))

		w.updateVolume("pv", func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "b"}
		})
		w.createClaim(newClaim("b", "1Gi"))
		w.wait(time.Minute)
		require.Equal(w, v1.ClaimLost, w.claim("a").Status.Phase)
		require.Contains(w, w.reasons(), "ClaimMisbound")
		require.Equal(w, "Bound pv <- Bound b", w.state("b", "pv"))
	})
}

// TestReferenceWithoutUID: a bound volume whose manifest is applied again, without the UID, keeps its claim, by one write.
func TestReferenceWithoutUID(t *testing.T) {
	for _, policy := range []v1.PersistentVolumeReclaimPolicy{v1.PersistentVolumeReclaimRetain, v1.PersistentVolumeReclaimDelete} {
		inWorld(t, func(w *world) {
			pv := newVolume("pv", "1Gi")
			pv.Spec.PersistentVolumeReclaimPolicy = policy
			w.createVolume(pv)
			w.createClaim(newClaim("a", "1Gi"))
			w.start()
			w.wait(time.Minute)
			w.writes()
			w.reasons()
			for range 3 {
				w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID, pv.Spec.ClaimRef.ResourceVersion = "", "" })
				w.wait(time.Minute)
				require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
				require.Equal(w, w.claim("a").UID, w.volume("pv").Spec.ClaimRef.UID)
				require.Equal(w, []string{"patch s pv"}, w.writes())
			}
			require.Empty(w, w.reasons())

			w.updateVolume("pv", func(pv *v1.PersistentVolume) { pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = "b", "" })
			w.wait(time.Minute)
			require.Equal(w, v1.ClaimLost, w.claim("a").Status.Phase, "the claim of another name")
		})
	}
}

// TestClasses: the default class also later, external provisioners, and claims that wait for a consumer.
func TestClasses(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		late := newClass("late", "example.com/p")
		mode := storagev1.VolumeBindingWaitForFirstConsumer
		late.VolumeBindingMode = &mode
		w.createClass(late)
		w.wait(time.Second) // the cache has the class before the claims
		w.createVolume(func() *v1.PersistentVolume {
			pv := newVolume("static", "1Gi")
			pv.Spec.StorageClassName = "late"
			return pv
		}())
		claim := newClaim("waits", "1Gi")
		claim.Spec.StorageClassName = &late.Name
		w.createClaim(claim)
		bare := newClaim("bare", "1Gi")
		bare.Spec.StorageClassName = nil
		w.createClaim(bare)
		w.wait(time.Minute)
		require.ElementsMatch(w, []string{"WaitForFirstConsumer", "FailedBinding"}, w.reasons())
		require.Equal(w, "Pending - <- Available -", w.state("waits", "static"))

		fast := newClass("fast", "example.com/p")
		fast.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
		w.createClass(fast)
		w.wait(time.Minute)
		require.Equal(w, "fast", *w.claim("bare").Spec.StorageClassName)
		require.Equal(w, "example.com/p", w.claim("bare").Annotations[provision.ProvisionerAnnotation])
		require.Equal(w, "example.com/p", w.claim("bare").Annotations[provision.BetaProvisionerAnnotation])
		require.Equal(w, []string{"ExternalProvisioning"}, w.reasons())

		w.updateClaim("waits", func(c *v1.PersistentVolumeClaim) {
			metav1.SetMetaDataAnnotation(&c.ObjectMeta, provision.SelectedNodeAnnotation, "node")
		})
		w.wait(time.Minute)
		require.Equal(w, "example.com/p", w.claim("waits").Annotations[provision.ProvisionerAnnotation])
		w.updateVolume("static", func(pv *v1.PersistentVolume) { // the scheduler
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "waits", UID: w.claim("waits").UID}
		})
		w.wait(time.Minute)
		require.Equal(w, "Bound static <- Bound waits", w.state("waits", "static"))
	})
}

// TestClaimGoneBeforeItWasBound: a volume with the policy Delete that a claim never received is free
// again.
func TestClaimGoneBeforeItWasBound(t *testing.T) {
	inWorld(t, func(w *world) {
		pv := newVolume("pv", "1Gi")
		pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimDelete
		pv.Annotations[bind.BoundByControllerAnnotation] = "yes"
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "a", UID: types.UID("gone")}
		w.createVolume(pv)
		w.start()
		w.wait(time.Minute)
		require.Nil(w, w.volume("pv").Spec.ClaimRef)
		require.Equal(w, v1.VolumeAvailable, w.volume("pv").Status.Phase)
	})
}

// TestBoundElsewhere: a volume whose claim is bound to another volume is free again, unless a user has
// written its reference.
func TestBoundElsewhere(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("pv", "1Gi"))
		w.createClaim(newClaim("a", "1Gi"))
		w.start()
		w.wait(time.Minute)
		uid := w.claim("a").UID
		for _, name := range []string{"ours", "theirs"} {
			pv := newVolume(name, "1Gi")
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "a", UID: uid}
			if name == "ours" {
				pv.Annotations[bind.BoundByControllerAnnotation] = "yes"
			}
			w.createVolume(pv)
		}
		w.wait(time.Minute)
		require.Nil(w, w.volume("ours").Spec.ClaimRef)
		require.NotContains(w, w.volume("ours").Annotations, bind.BoundByControllerAnnotation)
		require.Equal(w, v1.VolumeAvailable, w.volume("ours").Status.Phase)
		require.Equal(w, &v1.ObjectReference{Namespace: namespace, Name: "a"}, w.volume("theirs").Spec.ClaimRef)
		require.Equal(w, v1.VolumeAvailable, w.volume("theirs").Status.Phase)
	})
}

// TestCrashes: a run that crashes at any of its writes leaves a pair that the next run completes, with the
// missing writes alone.
func TestCrashes(t *testing.T) {
	for _, isLate := range []bool{false, true} {
		for n := range 4 {
			inWorld(t, func(w *world) {
				w.createVolume(newVolume("pv", "1Gi"))
				w.createClaim(newClaim("a", "1Gi"))
				w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Skip: n, Times: 1, Crash: true, AfterEffect: isLate})
				end := w.start()
				w.wait(time.Minute)
				end()
				made := n
				if isLate {
					made++
				}
				w.writes()
				w.start()
				w.wait(time.Minute)
				require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
				require.LessOrEqual(w, len(w.writes()), 4-made)
			})
		}
	}
}

// TestStaleClaim: a volume of a claim that only the API server has yet is not released.
func TestStaleClaim(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.wait(time.Second)
		release := w.server.HoldEvents("binder")
		claim := w.createClaim(newClaim("a", "1Gi"))
		release()
		hold := w.server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Delay: time.Hour})
		pv := newVolume("pv", "1Gi")
		pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "a", UID: claim.UID}
		w.createVolume(pv)
		w.wait(time.Minute)
		hold()
		require.NotEqual(w, v1.VolumeReleased, w.volume("pv").Status.Phase)
		w.wait(2 * time.Hour)
		require.Equal(w, "Bound pv <- Bound a", w.state("a", "pv"))
	})
}

// TestGauges: the gauges count the objects in the caches.
func TestGauges(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("pv", "1Gi"))
		w.createVolume(newVolume("spare", "2Gi"))
		w.createClaim(newClaim("a", "1Gi"))
		controller, err := bind.New(bind.Config{Cluster: w.server.Connect("binder")})
		require.NoError(w, err)
		ctx, cancel := context.WithCancel(w.Context())
		ended := make(chan error, 1)
		go func() { ended <- controller.Run(ctx) }()
		w.wait(time.Minute)
		metrics := metricstest.New(t)
		controller.Gauges(metrics.Gauge)
		require.Equal(w, map[string]int{
			"pv_collector_total_pv_count plugin_name=N/A volume_mode=Filesystem": 2,
			"pv_collector_bound_pv_count storage_class=":                         1, "pv_collector_unbound_pv_count storage_class=": 1,
			"pv_collector_bound_pvc_count namespace=default storage_class= volume_attributes_class=": 1,
		}, metrics.Take())
		cancel()
		require.NoError(w, <-ended)
	})
}

// TestConflictingBinder: a volume that another program has reserved meanwhile is not taken from its claim.
func TestConflictingBinder(t *testing.T) {
	inWorld(t, func(w *world) {
		w.createVolume(newVolume("pv", "1Gi"))
		w.start()
		w.wait(time.Minute)
		release := w.server.InjectEvents(apitest.EventFault{Identity: "binder", Resource: "persistentvolumes", Delay: time.Hour})
		w.updateVolume("pv", func(pv *v1.PersistentVolume) {
			pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: namespace, Name: "other", UID: "other"}
		})
		w.createClaim(newClaim("a", "1Gi"))
		w.wait(time.Minute)
		release()
		require.Equal(w, "other", w.volume("pv").Spec.ClaimRef.Name)
		require.Equal(w, v1.ClaimPending, w.claim("a").Status.Phase)
	})
}
