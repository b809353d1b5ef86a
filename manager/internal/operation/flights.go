package operation

import (
	"iter"
	"slices"

	"github.com/volumekit/volumekit/internal/persistent"
	v1 "k8s.io/api/core/v1"
)

// Flights are the in-flight operations, by volume. A copy is an immutable version.
type Flights struct {
	byVolume persistent.Map[v1.UniqueVolumeName, []*Flight] // the slices are immutable
}

// Len returns the number of volumes with an in-flight operation.
func (s Flights) Len() int { return s.byVolume.Len() }

// Of returns the flights of a volume, the oldest first. The slice is shared.
func (s Flights) Of(name v1.UniqueVolumeName) []*Flight { return s.byVolume.Get(name) }

// IsBusy reports whether the volume has an in-flight operation.
func (s Flights) IsBusy(name v1.UniqueVolumeName) bool { return len(s.Of(name)) > 0 }

// All returns all flights, in no order.
func (s Flights) All() iter.Seq[*Flight] {
	return func(yield func(*Flight) bool) {
		for _, all := range s.byVolume.All() {
			for _, f := range all {
				if !yield(f) {
					return
				}
			}
		}
	}
}

// Find returns the flight of an operation, or nil.
func (s Flights) Find(op Operation) *Flight {
	for _, f := range s.Of(op.Volume) {
		if f.Operation == op {
			return f
		}
	}
	return nil
}

// Add adds a flight.
func (s *Flights) Add(f *Flight) {
	s.byVolume = s.byVolume.With(f.Volume, append(slices.Clone(s.Of(f.Volume)), f))
}

// Drop removes a flight.
func (s *Flights) Drop(gone *Flight) {
	others := slices.DeleteFunc(slices.Clone(s.Of(gone.Volume)), func(f *Flight) bool { return f == gone })
	if s.byVolume = s.byVolume.With(gone.Volume, others); len(others) == 0 {
		s.byVolume = s.byVolume.Without(gone.Volume)
	}
}

// CheckMountsAtEnd requests a mount check of the volume after its in-flight operations. The loop
// alone calls it.
func (s Flights) CheckMountsAtEnd(name v1.UniqueVolumeName) {
	for _, f := range s.Of(name) {
		f.CheckAfter = true
	}
}
