package mountcheck

import (
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/naming"
	v1 "k8s.io/api/core/v1"
)

// A Queue holds the mounts that the next check covers. The zero value is empty. The caller
// synchronizes its use.
type Queue struct {
	hasAll    bool // all expected mounts
	hasFailed bool // the mount points of failed operations
	places    map[naming.Place]bool
}

// IsEmpty reports whether no check is necessary.
func (q *Queue) IsEmpty() bool { return !q.hasAll && !q.hasFailed && len(q.places) == 0 }

// AddAll adds all expected mounts, and the mount points of failed operations.
func (q *Queue) AddAll() { q.hasAll = true }

// AddFailed adds the mount points of failed operations.
func (q *Queue) AddFailed() { q.hasFailed = true }

// AddPlace adds the mount that is expected at a place.
func (q *Queue) AddPlace(at naming.Place) {
	if q.places == nil {
		q.places = map[naming.Place]bool{}
	}
	q.places[at] = true
}

// AddVolume adds all mounts of a volume. A nil volume has no mounts in pods.
func (q *Queue) AddVolume(name v1.UniqueVolumeName, v *actual.Volume) {
	q.AddPlace(naming.Place{Volume: name})
	if v == nil {
		return
	}
	for key := range v.Pods.All() {
		q.AddPlace(naming.Place{Volume: name, Key: key})
	}
}

// HasPlace reports whether the mount at a place is queued by its place or with all mounts.
func (q *Queue) HasPlace(at naming.Place) bool { return q.hasAll || q.places[at] }
