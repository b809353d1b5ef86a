package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/mountcheck"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/retry"
	v1 "k8s.io/api/core/v1"
)

const (
	// minCheckPause is the shortest pause between mount checks after changes of the mount table:
	// our own mounts change the table, too.
	minCheckPause = 250 * time.Millisecond
	// checkShare is the ratio of pause to check time, maxCheckPause the longest such pause.
	checkShare    = 4
	maxCheckPause = time.Second

	// minWatchPause is the pause before a failed watch is restarted, maxWatchPause the pause
	// after many failures.
	minWatchPause, maxWatchPause = time.Second, time.Minute
)

// maxUncheckedPause is the longest pause before a mount whose check failed is checked again.
const maxUncheckedPause = time.Minute

// watchTable reports changes of the mount table to the loop until ctx ends. Without a
// supported watch only the resync finds vanished mounts.
func (m *Manager) watchTable(ctx context.Context) {
	for _, watch := range m.watch {
		m.keepWatching(ctx, watch)
	}
}

// keepWatching runs a watch until ctx ends and returns early if the watch is not supported.
// It restarts a failed watch, which then reports a change.
func (m *Manager) keepWatching(ctx context.Context, watch func(ctx context.Context) error) {
	var pause retry.Backoff
	for begin := time.Now(); ctx.Err() == nil; begin = time.Now() {
		err := watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errors.ErrUnsupported) {
			m.config.Logger.Info("this watch of the mount table is not supported", "err", err)
			return
		}
		m.config.Logger.Warn("watch of the mount table failed; the next resync finds its changes", "err", err)
		if time.Since(begin) > maxWatchPause {
			pause = retry.Backoff{} // the watch worked before it failed
		}
		pause = pause.Increase(minWatchPause, maxWatchPause, time.Now())
		sleep(ctx, pause.Length)
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// needsMountCheck acquires mu and reports whether mounts have to be checked.
func (m *Manager) needsMountCheck() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.needsMountCheckLocked()
}

// startMountCheck checks in the background whether another process has unmounted or replaced
// expected mounts: a server on the path may not respond.
func (l *loop) startMountCheck(ctx context.Context, now time.Time) {
	if l.checkingMounts || !isDue(l.mountCheckDue(now), now) {
		return
	}
	all, failed := l.mountsToCheck(now)
	l.checkingMounts = true
	l.background.startQuery(func() result { return mountCheckResult{mountcheck.Run(ctx, l.config.Mounter, all, failed)} })
}

// isTooSoon reports whether the pause after the last check lasts; false if the clock has
// gone back, which shows by an impossible pause.
func (l *loop) isTooSoon(now time.Time) bool {
	left := l.nextMountCheck.Sub(now)
	return left > 0 && left <= maxCheckPause
}

// applyMountCheck records the result of a mount check.
func (l *loop) applyMountCheck(s mountcheck.Check, now time.Time) {
	l.checkingMounts = false
	l.nextMountCheck = now.Add(max(minCheckPause, min(checkShare*s.Took, maxCheckPause)))
	l.backOffUnchecked(s, now)
	l.retryNow(s.Changed)
	for _, mnt := range s.Gone {
		l.recordVanished(mnt, VolumeVanished, "nothing is mounted at %s any more: unmounted by another process")
	}
	for _, mnt := range s.Replaced {
		l.recordVanished(mnt, VolumeReplaced, "another mount is at %s: mounted by another process")
	}
}

// expectedMounts returns the expected mounts of all volumes without an in-flight operation;
// the others are checked after their operation. The caller holds mu.
func (l *loop) expectedMounts() []actual.ExpectedMount {
	all := make([]actual.ExpectedMount, 0, l.have.Volumes.Len())
	for name, v := range l.have.Volumes.All() {
		if l.schedule.IsBusy(name) {
			l.schedule.CheckMountsAtEnd(name, l.tableChanged || len(l.uncheckedMounts) > 0)
			continue
		}
		if mnt, ok := v.ExpectedMount(naming.Place{Volume: name}); ok {
			all = append(all, mnt)
		}
		for key := range v.Pods.All() {
			if mnt, ok := v.ExpectedMount(naming.Place{Volume: name, Key: key}); ok {
				all = append(all, mnt)
			}
		}
	}
	return all
}

// changedMounts is expectedMounts for placesToCheck. The caller holds mu.
func (l *loop) changedMounts() (all []actual.ExpectedMount) {
	for at := range l.placesToCheck {
		if l.schedule.IsBusy(at.Volume) {
			l.schedule.CheckMountsAtEnd(at.Volume, true)
			continue
		}
		if mnt, ok := l.have.Volumes.Get(at.Volume).ExpectedMount(at); ok {
			all = append(all, mnt)
		}
	}
	return all
}

// isUnchanged reports whether the actual state of the mount is the same as before the check.
// The caller holds mu.
func (l *loop) isUnchanged(mnt actual.ExpectedMount) bool {
	v := l.have.Volumes.Get(mnt.Volume)
	switch {
	case v == nil:
		return false
	case mnt.Is == nil:
		return v.Device == actual.Present && v.DeviceMount == mnt.ID
	}
	return v.Pods.Get(mnt.Pod) == mnt.Is
}

// recordVanished makes the volume uncertain, because the mount now at its path is unknown. A
// desired volume is set up again: its plugin recognizes its own mount, and otherwise leaves
// the mount alone and returns an error.
func (l *loop) recordVanished(mnt actual.ExpectedMount, reason, message string) {
	l.mu.Lock()
	if busy := l.schedule.IsBusy(mnt.Volume); busy || !l.isUnchanged(mnt) {
		if !busy {
			l.queueMountCheck(mnt.Volume)
		}
		l.schedule.CheckMountsAtEnd(mnt.Volume, true)
		l.mu.Unlock()
		return
	}
	v := *l.have.Volumes.Get(mnt.Volume)
	event := Event{Type: v1.EventTypeWarning, Reason: reason, PodUID: mnt.Pod.Pod, Unique: mnt.Volume, Spec: v.Spec, Plugin: v.Plugin,
		Message: fmt.Sprintf(message, mnt.Path)}
	if mnt.Is == nil {
		v.Device = actual.Uncertain
	} else {
		v.Pods = v.Pods.With(mnt.Pod, mnt.Is.WithState(actual.Uncertain))
		event.Pod = l.want.Pod(mnt.Pod.Pod)
	}
	l.have.Put(mnt.Volume, &v)
	l.dirty[mnt.Volume] = true
	l.notifyWaiters(mnt.Pod.Pod)
	l.unlock()
	l.config.Logger.Warn("volume is not mounted as it was", "reason", reason, "volume", brief.Name(string(mnt.Volume)), "path", mnt.Path)
	l.config.Events(event)
}

// mountCheckDue returns when the next mount check is due; zero: not before the mount table
// changes.
func (l *loop) mountCheckDue(now time.Time) (at time.Time) {
	if l.needsMountCheck() {
		at = now
	}
	for _, d := range l.uncheckedMounts {
		at = retry.Earlier(at, checkTime(d, now))
	}
	if !at.IsZero() && at.Before(now) {
		at = now
	}
	if !at.IsZero() && l.isTooSoon(at) {
		return l.nextMountCheck
	}
	return at
}

// checkTime returns the end of the pause; now, if the clock has gone back, see isTooSoon.
func checkTime(d retry.Backoff, now time.Time) time.Time {
	if d.Until.Sub(now) > maxUncheckedPause {
		return now
	}
	return d.Until
}

// mountsToCheck returns the mounts to check, all of them if any may have changed, and the
// failed operations. It skips unchecked mounts that are in their own pause.
func (l *loop) mountsToCheck(now time.Time) (all []actual.ExpectedMount, failed []retry.FailedOperation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.tableChanged || l.checkFailed {
		failed = l.waitingFailures(now)
	}
	if l.tableChanged || len(l.uncheckedMounts) > 0 {
		all = l.expectedMounts()
	} else {
		all = l.changedMounts()
	}
	slices.SortFunc(all, func(a, b actual.ExpectedMount) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), a.Place().Compare(b.Place()))
	})
	stillExpected := make(map[string]bool, len(l.uncheckedMounts))
	all = slices.DeleteFunc(all, func(mnt actual.ExpectedMount) bool {
		pause, isUnchecked := l.uncheckedMounts[mnt.Path]
		if isUnchecked {
			stillExpected[mnt.Path] = true
			return checkTime(pause, now).After(now)
		}
		return !l.tableChanged && !l.placesToCheck[mnt.Place()]
	})
	maps.DeleteFunc(l.uncheckedMounts, func(path string, _ retry.Backoff) bool { return !stillExpected[path] })
	l.tableChanged, l.checkFailed, l.placesToCheck = false, false, map[naming.Place]bool{}
	return all, failed
}

// backOffUnchecked increases the pauses of mounts whose check failed, and ends those of checked mounts.
func (l *loop) backOffUnchecked(s mountcheck.Check, now time.Time) {
	pauses := map[string]retry.Backoff{}
	for _, mnt := range s.Unchecked {
		pauses[mnt.Path] = l.uncheckedMounts[mnt.Path].Increase(minCheckPause, maxUncheckedPause, now)
	}
	for _, mnt := range s.Checked {
		delete(l.uncheckedMounts, mnt.Path)
	}
	maps.Copy(l.uncheckedMounts, pauses)
}
