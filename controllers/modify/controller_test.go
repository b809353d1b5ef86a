package modify_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/controllers/modify"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	isFast = "class fast, volume fast, iops 100"
	isSlow = "class slow, volume slow, iops 10"
)

// TestModify: three writes change a volume, and a claim that has its class causes no call.
func TestModify(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.Wait(time.Hour)
		require.Empty(t, w.Took())
		w.ask("fast")
		w.Wait(0)
		require.Equal(t, isFast, w.state())
		require.Equal(t, []string{"fast 100"}, w.asked())
		require.Equal(t, []string{
			"get volumeattributesclasses fast", "patch persistentvolumeclaims/status default/data", "get volumeattributesclasses fast",
			"patch persistentvolumes disk", "patch persistentvolumeclaims/status default/data",
		}, w.Took())
		require.Equal(t, []string{"Normal VolumeModify: modifying volume disk by class fast", "Normal VolumeModifySuccessful: modified volume disk by class fast"}, w.Announced())
		w.ask("slow")
		w.Wait(time.Hour)
		require.Equal(t, isSlow, w.state())
		w.Took()
		w.Wait(24 * time.Hour)
		require.Empty(t, w.Took())
	})
}

// TestMissingClass: a class that does not exist is waited for.
func TestMissingClass(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.ask("late")
		w.Wait(time.Minute)
		require.Equal(t, "class -, volume -, Pending late, iops ", w.state())
		require.Equal(t, []string{"Warning VolumeModifyFailed: failed to modify the volume by class late: the attributes class does not exist"}, w.Announced())
		w.addClass("late", driver, "50")
		w.Wait(5 * time.Minute)
		require.Equal(t, "class late, volume late, iops 50", w.state())
	})
}

// TestClassNamedAgainUnseen: a claim names a class, its present one, and the class again, and the cache shows one state:
// that between the two comes and goes during a gap of the watch.
func TestClassNamedAgainUnseen(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.ask("slow")
		w.Wait(time.Minute)
		require.Equal(t, isSlow, w.state())
		w.ask("late")
		w.Wait(time.Minute)
		end := w.Gap("persistentvolumeclaims")
		w.ask("slow")
		w.addClass("late", driver, "50")
		w.Wait(6 * time.Minute)
		require.Equal(t, isSlow, w.state(), "the change is given up")
		w.ask("late")
		end()
		w.Wait(20 * time.Minute)
		require.Equal(t, "class late, volume late, iops 50", w.state())
	})
}

// TestOtherDriver: a class of another driver is infeasible, and another class ends the pause.
func TestOtherDriver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addClass("other", "other.example.com", "1")
		w.start()
		w.ask("other")
		w.Wait(time.Minute)
		require.Equal(t, "class -, volume -, Infeasible other, ModifyVolumeError=True, iops ", w.state())
		require.Empty(t, w.asked())
		w.Took()
		w.Wait(3 * time.Minute)
		require.Empty(t, w.Took())
		w.ask("fast")
		w.Wait(0)
		require.Equal(t, isFast, w.state())
	})
}

// TestInfeasible: an infeasible class is tried rarely, and a claim that names its class again gives the
// change up.
func TestInfeasible(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.ask("slow")
		w.Wait(0)
		w.asked()
		refusal := errors.Join(errors.New("too fast"), volume.ErrInfeasible)
		w.storage.set(func(s *storage) { s.failures = []error{refusal, refusal, refusal} })
		w.ask("fast")
		w.Wait(11 * time.Minute)
		require.Equal(t, []string{"fast 100", "fast 100", "fast 100"}, w.asked(), "at 0, 5 and 10 minutes")
		require.Equal(t, "class slow, volume slow, Infeasible fast, ModifyVolumeError=True, ModifyingVolume=True, iops 10", w.state())
		w.Took()
		w.ask("slow")
		w.Wait(time.Hour)
		require.Equal(t, isSlow, w.state())
		require.Equal(t, []string{"patch persistentvolumeclaims/status default/data"}, w.Took())
	})
}

// TestPause: nothing but another class in the claim ends the pause after an infeasible class.
func TestPause(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{errors.Join(errors.New("too fast"), volume.ErrInfeasible)}
		w.start()
		w.ask("fast")
		w.Wait(time.Second)
		w.showInVolume("odd")
		w.Wait(time.Minute)
		require.Equal(t, []string{"fast 100"}, w.asked())
		w.Wait(5 * time.Minute)
		require.Equal(t, isFast, w.state())
	})
}

// TestUnrecorded: a volume whose change has succeeded, and was not recorded, changes back if a repetition fails
// and the claim names its class again.
func TestUnrecorded(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.ask("slow")
		w.Wait(0)
		w.asked()
		w.storage.set(func(s *storage) { s.failures = []error{nil, errors.New("broken")} })
		w.Server.Inject(apitest.Fault{
			Call: apitest.Call{Identity: identity, Verb: apitest.Patch, Resource: "persistentvolumes"}, Times: 1, Failure: apitest.InternalError,
		})
		w.ask("fast")
		w.Wait(600 * time.Millisecond)
		w.ask("slow")
		w.Wait(time.Minute)
		require.Equal(t, []string{"fast 100", "fast 100", "slow 10"}, w.asked())
		require.Equal(t, isSlow, w.state())
	})
}

// TestOpenOutcome: a change with an open outcome is repeated for its class; then comes the class that the claim
// names meanwhile, also if that is the earlier one.
func TestOpenOutcome(t *testing.T) {
	for _, hasEffect := range []bool{true, false} {
		inWorld(t, func(w *world) {
			w.start()
			w.ask("slow")
			w.Wait(0)
			w.asked()
			w.storage.set(func(s *storage) {
				s.hasEffect = hasEffect
				s.failures = []error{volume.AsUncertain(errors.New("no answer")), volume.AsTransient(errors.New("not sent")), volume.AsUncertain(errors.New("no answer"))}
			})
			w.ask("fast")
			w.Wait(100 * time.Millisecond)
			w.ask("slow")
			w.Wait(time.Hour)
			require.Equal(t, isSlow, w.state())
			require.Equal(t, []string{"fast 100", "fast 100", "fast 100", "fast 100", "slow 10"}, w.asked())
		})
	}
}

// TestFinalFailure: after a final error the claim's next class is tried, and the same one again with a backoff.
func TestFinalFailure(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{errors.New("broken"), errors.New("broken")}
		w.start()
		w.ask("fast")
		w.Wait(100 * time.Millisecond)
		require.Equal(t, "class -, volume -, InProgress fast, ModifyVolumeError=True, ModifyingVolume=True, iops ", w.state())
		w.Wait(time.Second)
		require.Equal(t, []string{"fast 100", "fast 100"}, w.asked())
		w.ask("slow")
		w.Wait(time.Minute)
		require.Equal(t, isSlow, w.state())
		require.Equal(t, []string{"slow 10"}, w.asked())
	})
}

// TestLostClass: an open change whose class was deleted is repeated with the parameters of its call; a later run
// cannot repeat it, and gives the volume the class that the claim names, also if it is the present one.
func TestLostClass(t *testing.T) {
	for _, isRestarted := range []bool{false, true} {
		inWorld(t, func(w *world) {
			end := w.start()
			w.ask("slow")
			w.Wait(0)
			w.asked()
			w.storage.set(func(s *storage) {
				s.hasEffect, s.failures = true, []error{volume.AsUncertain(errors.New("no answer"))}
			})
			w.ask("fast")
			w.Wait(100 * time.Millisecond)
			w.deleteClass("fast")
			if !isRestarted {
				w.Wait(time.Minute)
				require.Equal(t, isFast, w.state())
				return
			}
			end()
			w.start()
			w.Wait(time.Minute)
			require.Equal(t, "class slow, volume slow, InProgress fast, ModifyingVolume=True, iops 100", w.state())
			w.ask("slow")
			w.Wait(time.Minute)
			require.Equal(t, isSlow, w.state())
			require.Equal(t, []string{"fast 100", "slow 10"}, w.asked())
		})
	}
}

// TestCrashAtEachCall: a controller that ends before or after any of its writes is continued by the next one.
func TestCrashAtEachCall(t *testing.T) {
	for at := range 3 {
		for _, late := range []bool{false, true} {
			inWorld(t, func(w *world) {
				w.Server.Inject(apitest.Fault{Call: apitest.Call{Identity: identity, Verb: apitest.Patch}, Skip: at, Times: 1, Crash: true, AfterEffect: late})
				end := w.start()
				w.ask("fast")
				w.Wait(time.Minute)
				end()
				w.start()
				w.Wait(time.Minute)
				require.Equal(t, isFast, w.state(), "%d, %v", at, late)
			})
		}
	}
}

// TestForeign: a volume of another program is left alone.
func TestForeign(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.isForeign = true
		w.start()
		w.ask("fast")
		w.Wait(time.Hour)
		require.Empty(t, w.Took())
		require.Empty(t, w.Announced())
	})
}

// TestTimeout: a call that lasts too long has an open outcome, also after one that has changed nothing.
func TestTimeout(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Timeout = time.Second
		w.storage.failures = []error{errors.New("broken")}
		w.start()
		w.ask("fast")
		w.Wait(0)
		w.storage.set(func(s *storage) { s.delay = time.Minute })
		w.Wait(2 * time.Second)
		w.storage.set(func(s *storage) { s.delay = 0 })
		w.ask("slow")
		w.Wait(time.Hour)
		require.Equal(t, isSlow, w.state())
		require.Equal(t, []string{"fast 100", "fast 100", "slow 10"}, w.asked())
	})
}

// TestOldCache: a controller whose cache is old does not repeat a change that another one has given up since.
func TestOldCache(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{errors.New("broken")}
		w.start()
		w.ask("fast")
		w.Wait(100 * time.Millisecond)
		require.Equal(t, []string{"fast 100"}, w.asked())
		w.Server.HoldEvents(identity)
		w.ask("slow")
		claims := w.Cluster.PersistentVolumeClaims(namespace)
		claim, err := claims.Get(w.Context(), "data", metav1.GetOptions{})
		require.NoError(t, err)
		claim.Status.ModifyVolumeStatus.TargetVolumeAttributesClassName = "slow"
		_, err = claims.UpdateStatus(w.Context(), claim, metav1.UpdateOptions{})
		require.NoError(t, err)
		w.Wait(time.Minute)
		require.Equal(t, []string{"slow 10"}, w.asked())
	})
}

// TestVolumeShowsOtherClass: a claim names the class of its status, while its volume shows another one.
func TestVolumeShowsOtherClass(t *testing.T) {
	inWorld(t, func(w *world) {
		w.updateStatus(func(status *v1.PersistentVolumeClaimStatus) { status.CurrentVolumeAttributesClassName = ptr("slow") })
		w.start()
		w.showInVolume("fast")
		w.Wait(time.Minute)
		w.ask("slow")
		w.Wait(time.Hour)
		require.Equal(t, isSlow, w.state())
	})
}

// TestBoundLate: the cache shows the other class of a volume before the phase Bound of its claim.
func TestBoundLate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.ask("slow")
		w.updateStatus(func(status *v1.PersistentVolumeClaimStatus) { status.Phase = v1.ClaimPending })
		w.start()
		w.Wait(time.Minute)
		w.Server.InjectEvents(apitest.EventFault{Resource: "persistentvolumeclaims", Delay: time.Minute, Times: 1})
		w.updateStatus(func(status *v1.PersistentVolumeClaimStatus) {
			status.Phase, status.CurrentVolumeAttributesClassName = v1.ClaimBound, ptr("slow")
		})
		w.showInVolume("fast")
		w.Wait(time.Hour)
		require.Equal(t, isSlow, w.state())
	})
}

// TestForgottenAttempt: a claim ends during a call. The controller forgets it after the call.
func TestForgottenAttempt(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.set(func(s *storage) { s.delay = time.Minute })
		var controller *modify.Controller
		w.Start(time.Millisecond, func(ctx context.Context, cluster *apitest.Cluster) (err error) {
			config := w.config
			config.Cluster = cluster
			controller, err = modify.New(config)
			return simtest.Run(controller, err)(ctx)
		})
		w.ask("slow")
		w.Wait(10 * time.Second)
		w.EndClaim(namespace, "data")
		w.Wait(time.Hour)
		require.Zero(t, controller.Remembered())
	})
}

// TestPanic: a panic of the Modifier counts as an uncertain error of one claim, also after a call that has changed
// nothing: a claim that names its class again gets the attributes of that class.
func TestPanic(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.ask("slow")
		w.Wait(0)
		w.asked()
		w.storage.set(func(s *storage) { s.failures = []error{errors.New("broken"), nil, errors.New("broken")} })
		w.storage.set(func(s *storage) { s.panics = 2 })
		w.ask("fast")
		w.Wait(600 * time.Millisecond)
		require.Equal(t, []string{"fast 100", "fast 100"}, w.asked())
		require.Contains(t, w.Announced(), "Warning VolumeModifyFailed: failed to modify the volume by class fast: panic: a bug")
		w.ask("slow")
		w.Wait(time.Hour)
		require.Equal(t, []string{"fast 100", "slow 10"}, w.asked(), "the outcome is open")
		require.Equal(t, isSlow, w.state())
	})
}

// TestBadConfig: an invalid configuration names the field.
func TestBadConfig(t *testing.T) {
	cluster, storage := apitest.NewServer(apitest.Config{}).Direct(), &storage{}
	for want, config := range map[string]modify.Config{
		"modify: Config.Cluster: Required value: has the claims and the volumes":     {Modifier: storage},
		"modify: Config.Modifier: Required value: changes the attributes":            {Cluster: cluster},
		"modify: Config.Workers: Invalid value: -1: must be at least 0":              {Cluster: cluster, Modifier: storage, Workers: -1},
		"modify: Config.RetryInfeasible: Invalid value: \"-1s\": must be at least 0": {Cluster: cluster, Modifier: storage, RetryInfeasible: -time.Second},
	} {
		_, err := modify.New(config)
		require.EqualError(t, err, want)
		require.ErrorAs(t, err, new(*field.Error))
	}
}
