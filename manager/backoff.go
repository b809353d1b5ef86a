package manager

import "time"

// A delay is how long an operation that fails has to wait, and until when.
type delay struct {
	length time.Duration
	until  time.Time
}

// next is the delay after one more failure: twice as long, from first to most.
func (d delay) next(first, most time.Duration, now time.Time) delay {
	length := first
	if d.length > 0 {
		length = d.length * 2
	}
	length = min(length, most)
	return delay{length, now.Add(length)}
}
