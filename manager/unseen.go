package manager

import (
	"maps"
	"slices"
	"time"
)

// lookLater is how long it is waited at most before a mount that could not be looked at is
// looked at again.
const lookLater = time.Minute

// lookDue is when it is to be looked for volumes that have vanished; zero: not before the
// mount table changes.
func (l *loop) lookDue(now time.Time) (at time.Time) {
	if l.hasTableChanged() {
		at = now
	}
	for _, d := range l.unseen {
		at = earlier(at, d.lookUntil(now))
	}
	if !at.IsZero() && at.Before(now) {
		at = now
	}
	if !at.IsZero() && l.isTooSoon(at) {
		return l.nextLook
	}
	return at
}

// lookUntil is when the pause ends: now, if the clock has gone back, see isTooSoon.
func (d delay) lookUntil(now time.Time) time.Time {
	if d.until.Sub(now) > lookLater {
		return now
	}
	return d.until
}

// toLookAt returns all mounts that should be there, and the places of what failed, if the
// table has changed; but for the mounts that could not be looked at: each of these has a
// pause of its own, which is all that is waited for if the table has not changed.
func (l *loop) toLookAt(now time.Time) (all []mountOf, failed []attemptOf) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tableChanged {
		failed = l.attempts(now)
	}
	all = l.shouldBeMounted()
	there := make(map[string]bool, len(l.unseen))
	all = slices.DeleteFunc(all, func(mnt mountOf) bool {
		pause, unseen := l.unseen[mnt.path]
		if unseen {
			there[mnt.path] = true
			return pause.lookUntil(now).After(now)
		}
		return !l.tableChanged
	})
	maps.DeleteFunc(l.unseen, func(path string, _ delay) bool { return !there[path] })
	l.tableChanged = false
	return all, failed
}

func (l *loop) noteUnseen(s sight, now time.Time) {
	pauses := map[string]delay{}
	for _, mnt := range s.unseen {
		pauses[mnt.path] = l.unseen[mnt.path].next(lookEvery, lookLater, now)
	}
	for _, mnt := range s.looked {
		delete(l.unseen, mnt.path)
	}
	maps.Copy(l.unseen, pauses)
}
