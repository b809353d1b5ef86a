package retry

import (
	"time"
)

// Earlier returns the earlier of two times; zero is never.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
