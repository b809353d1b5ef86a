package lanes

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/manager/internal/operation"
	v1 "k8s.io/api/core/v1"
)

// Lanes limits the concurrent operations per plugin and per backend.
type Lanes struct {
	Limits
	byKey    map[operation.LaneKey]*lane
	busy     map[operation.Backend]int                   // in-flight operations
	parked   map[operation.Backend][]v1.UniqueVolumeName // volumes waiting for a worker of the backend
	isParked map[v1.UniqueVolumeName]bool
	// admitted are the volumes that hold a reserved worker of a backend until their operation
	// starts or turns out obsolete. reserved counts these workers.
	admitted map[v1.UniqueVolumeName]operation.Backend
	reserved map[operation.Backend]int
}

// Limits are the numbers of operations at a time, of a lane and of a backend.
type Limits struct{ Workers, PerBackend int }

// New returns lanes without operations.
func New(most Limits) Lanes {
	return Lanes{
		Limits: most,
		byKey:  map[operation.LaneKey]*lane{}, busy: map[operation.Backend]int{},
		parked: map[operation.Backend][]v1.UniqueVolumeName{}, isParked: map[v1.UniqueVolumeName]bool{},
		admitted: map[v1.UniqueVolumeName]operation.Backend{}, reserved: map[operation.Backend]int{},
	}
}

// laneFor returns the lane, and creates it first if it is missing.
func (l *Lanes) laneFor(key operation.LaneKey) *lane {
	if l.byKey[key] == nil {
		l.byKey[key] = &lane{}
	}
	return l.byKey[key]
}

// Sorted returns the lanes in a fixed order.
func (l *Lanes) Sorted() []operation.LaneKey {
	return slices.SortedFunc(maps.Keys(l.byKey), func(a, b operation.LaneKey) int {
		if byName := strings.Compare(a.Plugin, b.Plugin); byName != 0 || a == b {
			return byName
		}
		if a.Attaches {
			return 1
		}
		return -1
	})
}

// FreeWorkers returns how many operations may start in the lane.
func (l *Lanes) FreeWorkers(key operation.LaneKey, now time.Time) int {
	in := l.laneFor(key)
	most := min(l.Workers*maxSlowFactor, max(l.Workers, maxThreads))
	return min(l.Workers-in.countActive(now), most-len(in.flights))
}

// NextFree returns when the next in-flight operation becomes slow and so frees a worker for
// a queued operation; zero: never.
func (l *Lanes) NextFree(now time.Time) (at time.Time) {
	for _, in := range l.byKey {
		if in.isEmpty() {
			continue
		}
		for _, f := range in.flights {
			if until := f.Since.Add(slowAfter); until.After(now) {
				if at.IsZero() || until.Before(at) {
					at = until
				}
				break
			}
		}
	}
	return at
}

// Enqueue queues the volume of an operation that is due.
func (l *Lanes) Enqueue(key operation.LaneKey, op operation.Operation) {
	in := l.laneFor(key)
	in.ready[op.Verb] = append(in.ready[op.Verb], op.Volume)
}

// Dequeue removes and returns the first queued volume of a lane.
func (l *Lanes) Dequeue(key operation.LaneKey) (name v1.UniqueVolumeName, ok bool) {
	return l.laneFor(key).popVolume()
}

// RecordStart records the start of a flight.
func (l *Lanes) RecordStart(f *operation.Flight) {
	in := l.laneFor(f.Lane)
	in.flights = append(in.flights, f)
	l.busy[f.At]++
}

// RecordEnd records the end of a flight, and returns a parked volume that may start next.
func (l *Lanes) RecordEnd(f *operation.Flight) (next v1.UniqueVolumeName, ok bool) {
	in := l.laneFor(f.Lane)
	in.flights = slices.DeleteFunc(in.flights, func(other *operation.Flight) bool { return other == f })
	if in.isEmpty() && len(in.flights) == 0 {
		delete(l.byKey, f.Lane)
	}
	if l.busy[f.At]--; l.busy[f.At] == 0 {
		delete(l.busy, f.At)
	}
	return l.UnparkVolume(f.At)
}

// IsFull reports whether all workers of the backend are busy or reserved.
func (l *Lanes) IsFull(b operation.Backend) bool { return l.busy[b]+l.reserved[b] >= l.PerBackend }

// ReleaseSlot releases the reserved worker of a volume, and reports whether it had one.
func (l *Lanes) ReleaseSlot(name v1.UniqueVolumeName) bool {
	b, ok := l.admitted[name]
	if !ok {
		return false
	}
	delete(l.admitted, name)
	if l.reserved[b]--; l.reserved[b] == 0 {
		delete(l.reserved, b)
	}
	return true
}

// ParkVolume makes a volume wait for the end of an operation on the backend.
func (l *Lanes) ParkVolume(b operation.Backend, name v1.UniqueVolumeName) {
	if !l.isParked[name] {
		l.isParked[name] = true
		l.parked[b] = append(l.parked[b], name)
	}
}

// UnparkVolume removes the volume that has been parked longest on the backend, and reserves a
// worker for it. It reports whether a volume was parked.
func (l *Lanes) UnparkVolume(b operation.Backend) (name v1.UniqueVolumeName, ok bool) {
	line := l.parked[b]
	if len(line) == 0 {
		return "", false
	}
	if l.parked[b] = line[1:]; len(line) == 1 {
		delete(l.parked, b)
	}
	delete(l.isParked, line[0])
	l.ReleaseSlot(line[0])
	l.admitted[line[0]] = b
	l.reserved[b]++
	return line[0], true
}
