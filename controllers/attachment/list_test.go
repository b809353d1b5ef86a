package attachment_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/metricstest"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// listing makes the storage a Lister.
func (w *world) listing() *listingStorage {
	s := &listingStorage{storage: w.storage}
	w.config.Attacher = s
	return s
}

// TestLost: a volume that the storage has lost is attached again, and stays attached by its status.
func TestLost(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.listing()
		w.start()
		w.add("a", "node")
		w.Wait(10 * time.Minute)
		require.Equal(t, []string{attach}, w.asked())
		w.Took()
		w.storage.set(func(s *storage) { clear(s.attached); s.failures = []error{errors.New("no room")} })
		w.Wait(time.Minute)
		require.Equal(t, attached+`, attach error "no room"`, w.state("a"))
		w.Wait(time.Second)
		require.Equal(t, attached, w.state("a"))
		require.Equal(t, []string{attach, attach}, w.asked())
		require.Equal(t, []string{"disk to id-node"}, w.stored())
		require.Equal(t, []string{
			"Warning AttachmentLost: the storage does not have the volume attached, which is attached again",
			"Warning FailedAttachVolume: no room",
		}, w.Announced())
		w.Took()
		lists := s.count()
		w.Wait(time.Hour)
		require.Empty(t, w.Took())
		require.Equal(t, 60, s.count()-lists)
	})
}

// TestLongList: a list has more time than a call for one volume, and not more than ten periods.
func TestLongList(t *testing.T) {
	for took, isComplete := range map[time.Duration]bool{9 * time.Minute: true, time.Hour: false} {
		inWorld(t, func(w *world) {
			s := w.listing()
			s.took, w.config.Timeout = took, 15*time.Second
			w.start()
			w.Wait(25 * time.Minute)
			require.Equal(t, isComplete, s.count() > 0)
		})
	}
}

// TestFoundAgain: a volume that is not lost any more is not attached again, and its error goes.
func TestFoundAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.listing()
		w.start()
		w.add("a", "node")
		w.asked()
		w.storage.set(func(s *storage) {
			clear(s.attached)
			s.failures, s.hasEffect = manyFailures("no room"), true
		})
		w.Wait(time.Minute)
		require.Contains(t, w.state("a"), "no room")
		w.Wait(time.Hour)
		require.Equal(t, attached, w.state("a"))
		require.Less(t, len(w.asked()), 10)
	})
}

func manyFailures(text string) (failures []error) {
	for range 1000 {
		failures = append(failures, errors.New(text))
	}
	return failures
}

// TestLostDuringDeletion: a volume that is being detached is not lost.
func TestLostDuringDeletion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.listing()
		w.start()
		w.add("a", "node")
		w.storage.set(func(s *storage) { s.failures = manyFailures("in use"); clear(s.attached) })
		w.delete("a")
		w.Wait(10 * time.Minute)
		require.Equal(t, []string{"Warning FailedDetachVolume: in use"}, w.Announced())
		require.NotContains(t, w.asked()[1:], attach)
	})
}

// TestDetachDuringList: a volume that is detached during a list is not lost, nor is one whose Detach fails.
func TestDetachDuringList(t *testing.T) {
	for _, failure := range []error{nil, errors.New("in use")} {
		inWorld(t, func(w *world) {
			s := w.listing()
			s.took = 30 * time.Second
			w.start()
			w.add("a", "node")
			w.Wait(70 * time.Second) // the list has begun
			require.Equal(t, []string{attach}, w.asked())
			w.storage.set(func(s *storage) {
				if failure != nil {
					s.failures = manyFailures(failure.Error())
					clear(s.attached)
				}
			})
			w.delete("a")
			w.Wait(10 * time.Minute)
			for _, event := range w.Announced() {
				require.NotContains(t, event, "AttachmentLost")
			}
			require.NotContains(t, w.asked(), attach)
		})
	}
}

// TestAttachDuringList: a volume that is attached after the storage has made its list is not lost.
func TestAttachDuringList(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.listing()
		s.took, s.early = 30*time.Second, 30*time.Second
		w.config.Backoff = 15 * time.Second
		w.storage.failures = []error{errors.New("no room")}
		w.start()
		w.Wait(55 * time.Second) // the list begins after 5 seconds
		w.add("a", "node")
		w.Wait(10 * time.Minute)
		require.Equal(t, []string{attach, attach}, w.asked())
		require.Equal(t, []string{"Warning FailedAttachVolume: no room"}, w.Announced())
	})
}

// TestAttachedAgainDuringList: a volume that is detached during a list, and then attached for a later VolumeAttachment
// of the name, is not lost.
func TestAttachedAgainDuringList(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.listing()
		s.took, s.early = 30*time.Second, 10*time.Second
		w.start()
		w.add("a", "node")
		w.Wait(70 * time.Second) // the list has begun
		w.delete("a")
		w.Wait(15 * time.Second) // the storage has made the list
		w.add("a", "node")
		w.Wait(10 * time.Minute)
		require.Equal(t, []string{attach, detach, attach}, w.asked())
		require.Empty(t, w.Announced())
	})
}

// TestReplacedDuringList: a VolumeAttachment ends during a list, and a later one of its name has an Attach whose
// outcome is open. The list leaves the later one alone: the Attach is repeated with its arguments.
func TestReplacedDuringList(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.listing()
		s.took = 30 * time.Second
		w.config.Backoff = 40 * time.Second
		w.start()
		w.add("a", "node")
		w.Wait(61 * time.Second) // the list has begun
		w.delete("a")
		w.Wait(time.Second)
		require.Equal(t, "gone", w.state("a"))
		w.storage.set(func(s *storage) {
			s.volumes = nil
			s.failures = []error{volume.AsUncertain(errors.New("no answer"))}
		})
		w.add("a", "node")
		w.Wait(time.Second)
		w.updateVolume(func(pv *v1.PersistentVolume) { pv.Spec.MountOptions = []string{"new"} })
		w.Wait(10 * time.Minute)
		w.storage.set(func(s *storage) {
			require.Len(t, s.volumes, 2)
			require.Empty(t, s.volumes[1].Spec.MountOptions)
		})
	})
}

// TestFailedList: an error of the list causes no call.
func TestFailedList(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.listing()
		w.start()
		w.add("a", "node")
		w.storage.set(func(*storage) { s.err = errors.New("no list") })
		w.Wait(10 * time.Minute)
		require.Equal(t, []string{attach}, w.asked())
		require.Equal(t, attached, w.state("a"))
	})
}

// TestUnexpected: a volume of this cluster that is attached to a node of this cluster without a
// VolumeAttachment is reported once, and stays.
func TestUnexpected(t *testing.T) {
	inWorld(t, func(w *world) {
		w.listing()
		w.storage.set(func(s *storage) {
			s.attached["disk to id-node"] = true
			s.attached["disk to id-elsewhere"] = true
			s.attached["disk-elsewhere to id-node"] = true
		})
		w.start()
		w.Wait(70 * time.Second)
		require.Empty(t, w.Announced())
		w.Wait(10 * time.Minute)
		require.Equal(t, []string{
			"Warning UnexpectedAttachment: the storage has the volume attached to a node of this cluster without a VolumeAttachment: id-node",
		}, w.Announced())
		require.Empty(t, w.asked())
		require.Len(t, w.stored(), 3)
	})
}

// TestMetrics: each call of the driver is measured, with its end.
func TestMetrics(t *testing.T) {
	inWorld(t, func(w *world) {
		w.listing()
		metrics := metricstest.New(t)
		w.config.Metrics = metrics
		w.storage.failures = []error{errors.New("no room")}
		w.start()
		w.add("a", "node")
		w.Wait(time.Minute)
		w.delete("a")
		line := func(operation, status string) string {
			return manager.OperationDuration + " volume_plugin=" + driver + " operation_name=" + operation + " status=" + status + " migrated=false"
		}
		require.Equal(t, []string{
			line("volume_attach", "fail-unknown"), line("volume_attach", "success"), line("volume_list_attached", "success"), line("volume_detach", "success"),
		}, metrics.Order())
	})
}

// TestNoPublishLists: a driver without PUBLISH_UNPUBLISH_VOLUME has no list.
func TestNoPublishLists(t *testing.T) {
	inWorld(t, func(w *world) {
		s := w.listing()
		w.config.NoPublish = true
		w.start()
		w.Wait(10 * time.Minute)
		require.Zero(t, s.count())
	})
}
