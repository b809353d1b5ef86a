package attachment_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	readAttachment  = "get volumeattachments a"
	patchAttachment = "patch volumeattachments a"
	patchStatus     = "patch volumeattachments/status a"
	readVolume      = "get persistentvolumes pv"
	patchVolume     = "patch persistentvolumes pv"

	attached = "guarded disk to id-node, attached, device=/dev/sda"
	attach   = "attach disk to id-node"
	detach   = "detach disk to id-node"
)

// TestAttach: a volume is attached by three writes, and detached by a read and a write; its finalizer goes
// when it is deleted.
func TestAttach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		require.Equal(t, attached, w.state("a"))
		require.True(t, w.isVolumeGuarded())
		require.Equal(t, []string{attach}, w.asked())
		require.Equal(t, []string{patchAttachment, patchVolume, patchStatus}, w.Took())
		w.Wait(24 * time.Hour)
		require.Empty(t, w.Took(), "an idle controller")
		w.delete("a")
		require.Equal(t, "gone", w.state("a"))
		require.Equal(t, []string{detach}, w.asked())
		require.Equal(t, []string{readAttachment, patchAttachment}, w.Took())
		require.True(t, w.isVolumeGuarded(), "until it is deleted")
		w.deleteVolume()
		require.Nil(t, w.volume())
		require.Equal(t, []string{patchVolume}, w.Took())
		w.Wait(24 * time.Hour)
		require.Empty(t, w.Took(), "an idle controller")
		require.Empty(t, w.Announced())
	})
}

// TestFurtherNodes: a volume with the finalizer is read, and keeps the finalizer until the last node.
func TestFurtherNodes(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addNode("node-2", "id-2")
		w.start()
		w.add("a", "node")
		w.Took()
		w.add("b", "node-2")
		require.Equal(t, []string{"patch volumeattachments b", readVolume, "patch volumeattachments/status b"}, w.Took())
		require.Equal(t, []string{"disk to id-2", "disk to id-node"}, w.stored())
		w.deleteVolume()
		w.delete("a")
		w.Wait(time.Hour)
		require.NotNil(t, w.volume())
		w.delete("b")
		require.Nil(t, w.volume())
		require.Empty(t, w.stored())
	})
}

// TestOtherDrivers: VolumeAttachments and volumes of other drivers are left alone.
func TestOtherDrivers(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		foreign := newAttachment("a", "pv", "node")
		foreign.Spec.Attacher, foreign.Finalizers = "other.example.com", []string{finalizer}
		w.create(foreign)
		w.deleteVolume()
		w.delete("a")
		w.Wait(time.Hour)
		require.Empty(t, w.Took())
		require.Empty(t, w.asked())
	})
}

// TestFailedAttach: each failure is in the status, and ends with the success.
func TestFailedAttach(t *testing.T) {
	for name, kind := range map[string]func(error) error{
		"final": func(err error) error { return err }, "transient": volume.AsTransient, "uncertain": volume.AsUncertain,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.storage.failures = []error{kind(errors.New("no room")), kind(errors.New("no room"))}
				w.start()
				w.add("a", "node")
				require.Equal(t, `guarded disk to id-node, attach error "no room"`, w.state("a"))
				first := w.get("a").Status.AttachError.Time
				w.Wait(3 * time.Second)
				require.Equal(t, attached, w.state("a"))
				require.WithinDuration(t, time.Now(), first.Time, 5*time.Second)
				require.Equal(t, []string{attach, attach, attach}, w.asked())
				require.Equal(t, []string{"Warning FailedAttachVolume: no room"}, w.Announced())
				require.Equal(t, []string{
					patchAttachment, patchVolume, patchStatus,
					readAttachment, readVolume, patchStatus, readAttachment, readVolume, patchStatus,
				}, w.Took())
			})
		})
	}
}

// TestCheck: a volume that fails its check keeps no VolumeAttachment; one that passes is not checked again.
func TestCheck(t *testing.T) {
	inWorld(t, func(w *world) {
		checking := &checkingStorage{storage: w.storage, err: errors.New("the secret is missing")}
		w.config.Attacher = checking
		w.start()
		w.add("a", "node")
		require.Equal(t, `attach error "the secret is missing"`, w.state("a"))
		require.Equal(t, []string{patchStatus}, w.Took())
		w.delete("a")
		require.Equal(t, "gone", w.state("a"))

		w.add("a", "node")
		w.storage.set(func(s *storage) { checking.err, s.failures = nil, []error{errors.New("no room")} })
		w.Wait(3 * time.Second)
		require.Equal(t, attached, w.state("a"))
		require.Equal(t, []string{attach, attach}, w.asked())
		require.Equal(t, 3, checking.checks)

		w.storage.set(func(*storage) { checking.err = errors.New("the secret is missing") })
		w.update("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
		w.Wait(time.Second)
		require.Equal(t, attached, w.state("a"), "an attached volume needs the finalizer")
		require.Equal(t, 3, checking.checks)
	})
}

// TestCheckAfterUnknownOutcome: a volume that may be attached receives the finalizer again without a check.
func TestCheckAfterUnknownOutcome(t *testing.T) {
	inWorld(t, func(w *world) {
		checking := &checkingStorage{storage: w.storage}
		w.config.Attacher = checking
		w.storage.failures, w.storage.hasEffect = manyFailures("connection lost"), true
		w.start()
		w.add("a", "node")
		w.storage.set(func(*storage) { checking.err = errors.New("the secret is missing") })
		w.update("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
		w.Wait(time.Hour)
		w.storage.set(func(s *storage) { s.failures = nil })
		w.delete("a")
		require.Equal(t, "gone", w.state("a"))
		require.Empty(t, w.stored())
		require.Equal(t, 1, checking.checks)
	})
}

// TestPause: the pause between two attempts grows to five minutes.
func TestPause(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = manyFailures("no room")
		w.start()
		w.add("a", "node")
		w.Wait(time.Hour)
		require.InDelta(t, 21, len(w.asked()), 2)
	})
}

// TestUnknownOutcome: a VolumeAttachment that was never attached by its status is detached.
func TestUnknownOutcome(t *testing.T) {
	for name, kind := range map[string]func(error) error{"final": func(err error) error { return err }, "uncertain": volume.AsUncertain} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.storage.failures, w.storage.hasEffect = []error{kind(errors.New("connection lost"))}, true
				w.start()
				w.add("a", "node")
				require.False(t, w.get("a").Status.Attached)
				w.delete("a")
				require.Equal(t, []string{attach, detach}, w.asked())
				require.Equal(t, "gone", w.state("a"))
			})
		})
	}
}

// TestFailedDetach: Detach is repeated until it succeeds, and the finalizer stays until then.
func TestFailedDetach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		w.add("a", "node")
		w.storage.set(func(s *storage) {
			s.failures = []error{errors.New("in use"), volume.AsTransient(errors.New("in use")), volume.AsUncertain(errors.New("lost"))}
		})
		w.delete("a")
		require.Equal(t, `deleting, guarded disk to id-node, attached, device=/dev/sda, detach error "in use"`, w.state("a"))
		w.Wait(time.Minute)
		require.Equal(t, "gone", w.state("a"))
		require.Equal(t, []string{attach, detach, detach, detach, detach}, w.asked())
		require.Equal(t, []string{"Warning FailedDetachVolume: in use", "Warning FailedDetachVolume: lost"}, w.Announced())
	})
}

// TestDeletedDuringAttach: the volume is detached after the call, and not during it.
func TestDeletedDuringAttach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.delay = time.Minute
		w.start()
		w.add("a", "node")
		w.delete("a")
		w.Wait(30 * time.Second)
		require.Empty(t, w.asked())
		w.storage.set(func(s *storage) { s.delay = 0 })
		w.Wait(time.Minute)
		require.Equal(t, []string{attach, detach}, w.asked())
		require.Equal(t, "gone", w.state("a"))
	})
}

// TestOtherFinalizer: the status of a VolumeAttachment that stays is that of a detached volume.
func TestOtherFinalizer(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		guarded := newAttachment("a", "pv", "node")
		guarded.Finalizers = []string{other}
		w.create(guarded)
		w.Took()
		w.delete("a")
		require.Equal(t, "deleting", w.state("a"))
		require.Equal(t, []string{readAttachment, patchStatus, patchAttachment}, w.Took())
		w.Wait(time.Hour)
		require.Equal(t, []string{attach, detach}, w.asked())
	})
}

// TestCrashAtEachCall: a controller that ends before or after any of its writes is continued by the next one.
func TestCrashAtEachCall(t *testing.T) {
	for at := range 4 {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprint("write ", at, ", late ", late), func(t *testing.T) {
				inWorld(t, func(w *world) { crashAtCall(w, at, late) })
			})
		}
	}
}

func crashAtCall(w *world, at int, late bool) {
	w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Skip: at, Times: 1, Crash: true, AfterEffect: late})
	end := w.start()
	w.add("a", "node")
	w.Wait(time.Minute)
	if at < 3 {
		end()
		end = w.start()
		w.Wait(time.Minute)
	}
	require.Equal(w, attached, w.state("a"))
	require.True(w, w.isVolumeGuarded())
	w.delete("a")
	w.Wait(time.Minute)
	end()
	w.start()
	w.Wait(time.Minute)
	require.Equal(w, "gone", w.state("a"))
	require.Empty(w, w.stored())
	w.deleteVolume()
	require.Nil(w, w.volume())
}

// TestDeletedBeforeRestart: a process that ends during Attach, without a further write, leaves the volume to the
// next one.
func TestDeletedBeforeRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.start()
		w.storage.set(func(s *storage) { s.delay, s.hasEffect = time.Minute, true })
		w.add("a", "node")
		end()
		require.Equal(t, []string{"disk to id-node"}, w.stored())
		require.Equal(t, "guarded disk to id-node", w.state("a"))
		w.storage.set(func(s *storage) { s.delay = 0 })
		w.delete("a")
		w.removeNode("node")
		w.start()
		require.Empty(t, w.stored())
		require.Equal(t, "gone", w.state("a"))
	})
}

// TestFailedWrites: writes that fail before or after their effect are repeated.
func TestFailedWrites(t *testing.T) {
	for name, failure := range map[string]apitest.Failure{"conflict": apitest.Conflict, "timeout": apitest.ServerTimeout, "internal error": apitest.InternalError} {
		for at := range 4 {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprint(name, ", write ", at, ", late ", late), func(t *testing.T) {
					inWorld(t, func(w *world) {
						w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Skip: at, Times: 1, Failure: failure, AfterEffect: late})
						w.start()
						w.add("a", "node")
						w.Wait(time.Second)
						require.Equal(t, attached, w.state("a"))
						w.delete("a")
						w.Wait(time.Second)
						require.Equal(t, "gone", w.state("a"))
						require.Empty(t, w.stored())
					})
				})
			}
		}
	}
}

// TestNoPublish: each VolumeAttachment is attached without a call and without finalizers, and those of an
// earlier version of the driver go.
func TestNoPublish(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.start()
		w.add("earlier", "node")
		end()
		w.asked()
		w.Took()
		w.config.NoPublish = true
		w.start()
		w.add("a", "missing")
		require.Equal(t, "attached", w.state("a"))
		require.Equal(t, []string{patchStatus}, w.Took())
		w.delete("a")
		require.Equal(t, "gone", w.state("a"))
		w.delete("earlier")
		require.Equal(t, "gone", w.state("earlier"))
		w.deleteVolume()
		require.Nil(t, w.volume())
		require.Empty(t, w.asked())
	})
}

// TestInline: an inline volume spec is attached without a PersistentVolume.
func TestInline(t *testing.T) {
	inWorld(t, func(w *world) {
		w.start()
		inline := newAttachment("a", "", "node")
		inline.Spec.Source = storagev1.VolumeAttachmentSource{InlineVolumeSpec: &newVolume("", "inline").Spec}
		w.create(inline)
		require.Equal(t, "guarded inline to id-node, attached, device=/dev/sda", w.state("a"))
		require.Equal(t, []string{patchAttachment, patchStatus}, w.Took())
		w.delete("a")
		require.Equal(t, []string{"attach inline to id-node", "detach inline to id-node"}, w.asked())
		require.Equal(t, "gone", w.state("a"))
	})
}

// TestErrorText: the text of an error is one line that the API server accepts, and the code of an error is
// stored by API servers with the field.
func TestErrorText(t *testing.T) {
	inWorld(t, func(w *world) {
		long := strings.Repeat("ä", 4000)
		w.storage.failures = []error{errors.New("first\nsecond\x1b[2K\xff" + long)}
		w.start()
		w.add("a", "node")
		require.NotNil(t, w.get("a").Status.AttachError, "the API server refuses a longer text")
		message := w.get("a").Status.AttachError.Message
		require.True(t, strings.HasPrefix(message, "first second [2K\uFFFDä"), message)
		require.LessOrEqual(t, len(message), 1024)
	})
}

// TestMetadata: the status has the metadata of the last Attach alone, and none that the API server refuses.
func TestMetadata(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.metadata = map[string]string{"big": strings.Repeat("x", 1<<19)}
		w.start()
		w.add("a", "node")
		require.Equal(t, `guarded disk to id-node, attach error "the metadata of the attached volume has 524291 bytes, more than 262144"`, w.state("a"))
		w.storage.set(func(s *storage) { s.metadata = map[string]string{"binary": "\xff"} })
		w.Wait(time.Second)
		require.Equal(t, `guarded disk to id-node, attach error "the metadata of the attached volume is not UTF-8"`, w.state("a"))
		w.storage.set(func(s *storage) { s.metadata = nil })
		w.setStatus("a", func(status *storagev1.VolumeAttachmentStatus) {
			status.AttachmentMetadata = map[string]string{"of": "an earlier attach"}
		})
		w.Wait(time.Minute)
		require.Equal(t, "guarded disk to id-node, attached", w.state("a"))
	})
}

// TestSameCall: a call whose outcome is unknown is repeated with the same volume, and the next one has the
// changed volume.
func TestSameCall(t *testing.T) {
	inWorld(t, func(w *world) {
		w.storage.failures = []error{
			volume.AsUncertain(errors.New("lost")), volume.AsTransient(errors.New("no driver")), errors.New("no room"),
		}
		w.start()
		w.add("a", "node")
		w.updateVolume(func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany} })
		w.Wait(time.Minute)
		require.Equal(t, attached, w.state("a"))
		var modes []v1.PersistentVolumeAccessMode
		for _, pv := range w.storage.volumes {
			modes = append(modes, pv.Spec.AccessModes...)
		}
		require.Equal(t, []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce, v1.ReadWriteOnce, v1.ReadWriteOnce, v1.ReadWriteMany}, modes)
	})
}

// TestTimeout: a call that lasts too long has an unknown outcome.
func TestTimeout(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Timeout = time.Second
		w.storage.delay = time.Minute
		w.start()
		w.add("a", "node")
		w.Wait(1100 * time.Millisecond)
		require.Equal(t, `guarded disk to id-node, attach error "context deadline exceeded"`, w.state("a"))
		w.updateVolume(func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany} })
		w.storage.set(func(s *storage) { s.delay = 0 })
		w.Wait(time.Minute)
		require.Equal(t, attached, w.state("a"))
		require.Equal(t, v1.ReadWriteOnce, w.storage.volumes[0].Spec.AccessModes[0], "the same call")
	})
}

// TestPanic: a call that panics has an unknown outcome.
func TestPanic(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Attacher = &panickingStorage{storage: w.storage}
		w.start()
		w.add("a", "node")
		require.Equal(t, `guarded disk to id-node, attach error "panic: a bug"`, w.state("a"))
		w.updateVolume(func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany} })
		w.Wait(time.Minute)
		require.Equal(t, attached, w.state("a"))
		require.Equal(t, v1.ReadWriteOnce, w.storage.volumes[1].Spec.AccessModes[0], "the same call")
	})
}

// A panickingStorage panics after the effect of its first Attach.
type panickingStorage struct {
	*storage
	hasPanicked bool
}

func (s *panickingStorage) Attach(ctx context.Context, req attachment.Request) (map[string]string, error) {
	metadata, err := s.storage.Attach(ctx, req)
	if !s.hasPanicked {
		s.hasPanicked = true
		panic("a bug")
	}
	return metadata, err
}

// TestUnsentCall: a call whose time has ended before it began is not repeated with its arguments.
func TestUnsentCall(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Timeout = time.Second
		w.storage.delay, w.storage.isWaiting = time.Minute, true
		w.start()
		w.add("a", "node")
		w.Wait(1100 * time.Millisecond)
		w.updateVolume(func(pv *v1.PersistentVolume) { pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany} })
		w.storage.set(func(s *storage) { s.delay = 0 })
		w.Wait(time.Minute)
		require.Equal(t, attached, w.state("a"))
		require.Equal(t, v1.ReadWriteMany, w.storage.volumes[0].Spec.AccessModes[0])
	})
}

// TestFinalizerOfUser: finalizers that a user removes from an attached volume are restored, also after a
// restart.
func TestFinalizerOfUser(t *testing.T) {
	removeAttachment := func(w *world) {
		w.update("a", func(a *storagev1.VolumeAttachment) { a.Finalizers = nil })
	}
	removeVolume := func(w *world) { w.updateVolume(func(pv *v1.PersistentVolume) { pv.Finalizers = nil }) }
	for name, remove := range map[string]func(*world){"VolumeAttachment": removeAttachment, "PersistentVolume": removeVolume} {
		for _, isDown := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", controller is down: ", isDown), func(t *testing.T) {
				inWorld(t, func(w *world) {
					end := w.start()
					w.add("a", "node")
					if isDown {
						end()
					}
					remove(w)
					if isDown {
						w.start()
					}
					w.Wait(time.Second)
					require.Equal(t, attached, w.state("a"))
					require.True(t, w.isVolumeGuarded())
					require.Equal(t, []string{attach}, w.asked())
				})
			})
		}
	}
}

// TestBadConfig: an invalid configuration names the field.
func TestBadConfig(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	valid := attachment.Config{Cluster: server.Direct(), Attacher: newStorage()}
	for name, change := range map[string]func(*attachment.Config){
		"Config.Cluster":    func(c *attachment.Config) { c.Cluster = nil },
		"Config.Attacher":   func(c *attachment.Config) { c.Attacher = nil },
		"Config.Workers":    func(c *attachment.Config) { c.Workers = -1 },
		"Config.Timeout":    func(c *attachment.Config) { c.Timeout = -1 },
		"Config.Backoff":    func(c *attachment.Config) { c.Backoff = -1 },
		"Config.MaxBackoff": func(c *attachment.Config) { c.MaxBackoff = -1 },
		"Config.ListEvery":  func(c *attachment.Config) { c.ListEvery = -1 },
	} {
		config := valid
		change(&config)
		_, err := attachment.New(config)
		var bad *field.Error
		require.ErrorAs(t, err, &bad)
		require.Equal(t, name, bad.Field)
	}
	_, err := attachment.New(attachment.Config{Cluster: server.Direct(), Attacher: nameless{}})
	require.ErrorContains(t, err, "Name must return the name of a driver")
	_, err = attachment.New(valid)
	require.NoError(t, err)
}

type nameless struct{ attachment.Attacher }

func (nameless) Name() string { return "" }

// TestFinalizerName: the names are those of external-attacher.
func TestFinalizerName(t *testing.T) {
	for driver, want := range map[string]string{
		"disk.csi.azure.com": "external-attacher/disk-csi-azure-com",
		"Driver-1":           "external-attacher/Driver-1",
		"a/b_c":              "external-attacher/a-b-c",
		"driver.":            "external-attacher/driver-X",
	} {
		require.Equal(t, want, attachment.Finalizer(driver))
	}
}

// TestRunOnce: a second Run fails.
func TestRunOnce(t *testing.T) {
	controller, err := attachment.New(attachment.Config{Cluster: apitest.NewServer(apitest.Config{}).Direct(), Attacher: newStorage()})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, controller.Run(ctx))
	require.ErrorContains(t, controller.Run(ctx), "runs once")
}
