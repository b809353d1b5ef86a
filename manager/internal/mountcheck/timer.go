package mountcheck

import (
	"maps"
	"time"

	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/retry"
)

const (
	// minPause is the shortest pause between checks after changes of the mount table: the
	// manager's own mounts change the table, too.
	minPause = 250 * time.Millisecond
	// pauseShare is the ratio of the pause to the time of the check before, maxPause the longest
	// such pause.
	pauseShare = 4
	maxPause   = time.Second

	// maxUncheckedPause is the longest pause before a mount whose check failed is checked again.
	maxUncheckedPause = time.Minute
)

// A Timer says when checks are due: soon after a change of the mount table, and for mounts whose
// check failed after growing pauses. One goroutine uses it. The zero value has had no check.
type Timer struct {
	isRunning bool
	next      time.Time                // no check begins earlier
	unchecked map[string]retry.Backoff // mount points whose check failed
}

// Begin records that a check has begun.
func (t *Timer) Begin() { t.isRunning = true }

// End records the result of a check. It increases the pauses of mounts whose check failed, and
// ends those of the other checked mounts.
func (t *Timer) End(s Check, now time.Time) {
	t.isRunning = false
	t.next = now.Add(max(minPause, min(pauseShare*s.Took, maxPause)))
	pauses := map[string]retry.Backoff{}
	for _, mnt := range s.Unchecked {
		pauses[mnt.Path] = t.unchecked[mnt.Path].Increase(minPause, maxUncheckedPause, now)
	}
	for _, mnt := range s.Checked {
		delete(t.unchecked, mnt.Path)
	}
	if t.unchecked == nil {
		t.unchecked = pauses
		return
	}
	maps.Copy(t.unchecked, pauses)
}

// IsRunning reports whether a check is in flight.
func (t *Timer) IsRunning() bool { return t.isRunning }

// IsUnchecked reports whether the last check of the mount at a path failed.
func (t *Timer) IsUnchecked(path string) bool {
	_, ok := t.unchecked[path]
	return ok
}

// NextCheck returns when the next check is due; zero: not before a mount is queued. isQueued says
// that the queue has mounts.
func (t *Timer) NextCheck(isQueued bool, now time.Time) (at time.Time) {
	if isQueued {
		at = now
	}
	for _, pause := range t.unchecked {
		at = retry.Earlier(at, endOf(pause, now))
	}
	if !at.IsZero() && at.Before(now) {
		at = now
	}
	if !at.IsZero() && t.isTooSoon(at) {
		return t.next
	}
	return at
}

// isTooSoon reports whether the pause after the last check lasts; false if the clock has gone
// back, which shows by an impossible pause.
func (t *Timer) isTooSoon(at time.Time) bool {
	left := t.next.Sub(at)
	return left > 0 && left <= maxPause
}

// endOf returns the end of a pause; now, if the clock has gone back, see isTooSoon.
func endOf(pause retry.Backoff, now time.Time) time.Time {
	if pause.Until.Sub(now) > maxUncheckedPause {
		return now
	}
	return pause.Until
}

// dropUnexpected ends the pauses of paths at which no mount is expected any more.
func (t *Timer) dropUnexpected(expected []actual.ExpectedMount) {
	isExpected := make(map[string]bool, len(t.unchecked))
	for _, mnt := range expected {
		if t.IsUnchecked(mnt.Path) {
			isExpected[mnt.Path] = true
		}
	}
	maps.DeleteFunc(t.unchecked, func(path string, _ retry.Backoff) bool { return !isExpected[path] })
}

// isPaused reports whether the pause of a mount whose check failed lasts.
func (t *Timer) isPaused(path string, now time.Time) bool {
	pause, ok := t.unchecked[path]
	return ok && endOf(pause, now).After(now)
}
