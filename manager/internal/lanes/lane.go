package lanes

import (
	"slices"
	"time"

	"github.com/volumekit/volumekit/manager/internal/operation"
	v1 "k8s.io/api/core/v1"
)

// A lane is the queue of volumes with a due operation, by verb, and the in-flight operations,
// the oldest first.
type lane struct {
	ready   [operation.LastVerb + 1][]v1.UniqueVolumeName
	flights []*operation.Flight
}

// slowAfter is how long an operation occupies a worker. A slower operation most likely waits
// for a server that does not respond, and must not delay others.
const slowAfter = 5 * time.Second

// An operation that takes longer than slowAfter may hold a thread of the process, and a Go
// program that needs more than 10,000 threads ends. One plugin has at most maxSlowFactor times
// Limits.Workers operations in flight, and at most maxThreads unless it has more workers.
const (
	maxSlowFactor = 8
	maxThreads    = 1024
)

// countActive returns the number of flights that occupy a worker: the youngest ones.
func (in *lane) countActive(now time.Time) (n int) {
	for _, f := range slices.Backward(in.flights) {
		if now.Sub(f.Since) >= slowAfter {
			break
		}
		n++
	}
	return n
}

// popVolume removes and returns the first queued volume.
func (in *lane) popVolume() (name v1.UniqueVolumeName, ok bool) {
	for verb := range in.ready {
		if line := in.ready[verb]; len(line) > 0 {
			in.ready[verb] = line[1:]
			return line[0], true
		}
	}
	return "", false
}

// isEmpty reports whether no volume is queued.
func (in *lane) isEmpty() bool {
	return !slices.ContainsFunc(in.ready[:], func(line []v1.UniqueVolumeName) bool { return len(line) > 0 })
}
