package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/mountcheck"
	"github.com/volumekit/volumekit/manager/internal/retry"
	"github.com/volumekit/volumekit/util/ctxend"
	v1 "k8s.io/api/core/v1"
)

// A mountChecker checks whether another process has unmounted or replaced the mounts of volumes.
// The loop's goroutine uses it.
type mountChecker struct {
	loop   loopAccess
	config *Config
	timer  mountcheck.Timer
}

// startCheck begins a check in the background, if one is due: a server on a path may not respond.
func (c *mountChecker) startCheck(ctx context.Context, now time.Time) {
	if !isDue(c.nextCheck(now), now) {
		return
	}
	var all []actual.ExpectedMount
	var failed []retry.FailedOperation
	c.loop.withWorld(func(w *world) {
		all, failed = c.timer.Select(mountcheck.World{Have: w.have, Flights: w.schedule.Flights, Retry: w.schedule.Retry}, &w.mountQueue, now)
	})
	c.timer.Begin()
	c.loop.startQuery(func() result { return mountCheckResult{mountcheck.Run(ctx, c.config.Mounter, all, failed)} })
}

// nextCheck returns when the next check is due; zero: not before the mount table changes, or the
// check in flight has ended.
func (c *mountChecker) nextCheck(now time.Time) time.Time {
	if c.timer.IsRunning() {
		return time.Time{}
	}
	return c.timer.NextCheck(c.hasQueued(), now)
}

// hasQueued reports whether mounts have to be checked.
func (c *mountChecker) hasQueued() (isQueued bool) {
	c.loop.withWorld(func(w *world) { isQueued = !w.mountQueue.IsEmpty() })
	return isQueued
}

// applyCheck records the result of a check.
func (c *mountChecker) applyCheck(s mountcheck.Check, now time.Time) {
	c.timer.End(s, now)
	c.loop.update(func(w *world) { w.retryNow(s.Changed) })
	for _, mnt := range s.Gone {
		c.recordVanished(mnt, VolumeVanished, "nothing is mounted at %s any more: unmounted by another process")
	}
	for _, mnt := range s.Replaced {
		c.recordVanished(mnt, VolumeReplaced, "another mount is at %s: mounted by another process")
	}
}

// recordVanished records that the mount of a volume is missing or replaced, and reports it. It
// drops an outdated finding.
func (c *mountChecker) recordVanished(mnt actual.ExpectedMount, reason, message string) {
	var after *actual.Volume
	event := Event{Type: v1.EventTypeWarning, Reason: reason, PodUID: mnt.Pod.Pod, Unique: mnt.Volume, Message: fmt.Sprintf(message, mnt.Path)}
	c.loop.update(func(w *world) {
		after = w.makeMountUncertain(mnt)
		event.Pod = w.want.Pod(mnt.Pod.Pod)
	})
	if after == nil {
		return
	}
	event.Spec, event.Plugin = after.Spec, after.Plugin
	c.config.Logger.Warn("volume is not mounted as it was", "reason", reason, "volume", brief.Name(string(mnt.Volume)), "path", mnt.Path)
	c.config.Events(event)
}

// makeMountUncertain makes the device mount, or the volume in its pod, uncertain, because the
// mount now at the path is unknown. A desired volume is then set up again: its plugin recognizes
// its own mount, and otherwise leaves the mount alone and returns an error.
//
// If the volume has an in-flight operation, or has changed since the check began, it queues another
// check and returns nil. The caller holds mu.
func (w *world) makeMountUncertain(mnt actual.ExpectedMount) (after *actual.Volume) {
	if busy := w.schedule.IsBusy(mnt.Volume); busy || !w.isUnchanged(mnt) {
		if !busy {
			w.mountQueue.AddVolume(mnt.Volume, w.have.Volumes.Get(mnt.Volume))
		}
		w.schedule.CheckMountsAtEnd(mnt.Volume)
		return nil
	}
	v := *w.have.Volumes.Get(mnt.Volume)
	if mnt.Is == nil {
		v.Device = actual.Uncertain
	} else {
		v.Pods = v.Pods.With(mnt.Pod, mnt.Is.WithState(actual.Uncertain))
	}
	w.have.Put(mnt.Volume, &v)
	w.dirty[mnt.Volume] = true
	w.notifyWaiters(mnt.Pod.Pod)
	return &v
}

// isUnchanged reports whether the actual state of the mount is the same as before the check.
// The caller holds mu.
func (w *world) isUnchanged(mnt actual.ExpectedMount) bool {
	v := w.have.Volumes.Get(mnt.Volume)
	switch {
	case v == nil:
		return false
	case mnt.Is == nil:
		return v.Device == actual.Present && v.DeviceMount == mnt.ID
	}
	return v.Pods.Get(mnt.Pod) == mnt.Is
}

// minWatchPause is the pause before a failed watch of the mount table is restarted, maxWatchPause
// the pause after many failures.
const minWatchPause, maxWatchPause = time.Second, time.Minute

// A mountTableWatch reports changes of the mount table until its context ends or it fails.
type mountTableWatch func(ctx context.Context) error

// watchMountTable runs the first supported watch until ctx ends. Without one only the resync finds
// vanished mounts.
func watchMountTable(ctx context.Context, watches []mountTableWatch, log *slog.Logger) {
	for _, watch := range watches {
		watch.keepRunning(ctx, log)
	}
}

// keepRunning runs a watch until ctx ends and returns early if the watch is not supported. It
// restarts a failed watch, which then reports a change.
func (watch mountTableWatch) keepRunning(ctx context.Context, log *slog.Logger) {
	var pause retry.Backoff
	for begin := time.Now(); ctx.Err() == nil; begin = time.Now() {
		err := watch(ctx)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errors.ErrUnsupported) {
			log.Info("this watch of the mount table is not supported", "err", err)
			return
		}
		log.Warn("watch of the mount table failed; the next resync finds its changes", "err", err)
		if time.Since(begin) > maxWatchPause {
			pause = retry.Backoff{} // the watch worked before it failed
		}
		pause = pause.Increase(minWatchPause, maxWatchPause, time.Now())
		_ = ctxend.Sleep(ctx, pause.Length) // the loop notices the end of ctx
	}
}
