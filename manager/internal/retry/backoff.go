package retry

import (
	"time"
)

// A Backoff is the pause of a failed operation: its length and its end.
type Backoff struct {
	Length time.Duration
	Until  time.Time
}

// Increase returns the pause after one more failure: twice as long, from first to most.
func (d Backoff) Increase(first, most time.Duration, now time.Time) Backoff {
	length := first
	if d.Length > 0 {
		length = d.Length * 2
	}
	length = min(length, most)
	return Backoff{length, now.Add(length)}
}
