package manager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/ability"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/manager/internal/retry"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// An AttachmentVerifier is an [Attacher] that can list attached volumes. Without one the
// manager does not detect detaches by other programs.
type AttachmentVerifier interface {
	Attacher
	// VolumesAreAttached reports which of the volumes, all of one plugin, are attached to the
	// node. A volume missing from the result is unverified. It is called from several
	// goroutines, one at a time for each plugin; an error changes nothing.
	VolumesAreAttached(ctx context.Context, attachments []Attachment) (map[v1.UniqueVolumeName]bool, error)
}

// VolumesAreAttached queries the plugin.
func (pluginAttacher) VolumesAreAttached(ctx context.Context, attachments []Attachment) (map[v1.UniqueVolumeName]bool, error) {
	able, err := ability.Attachable(attachments[0].Plugin)
	if err != nil {
		return nil, err
	}
	attacher, err := able.NewAttacher()
	if err != nil {
		return nil, err
	}
	names, specs := map[*volume.Spec]v1.UniqueVolumeName{}, []*volume.Spec{}
	for _, a := range attachments {
		specs = append(specs, a.Spec)
		names[a.Spec] = a.Volume
	}
	answer, err := attacher.VolumesAreAttached(ctx, specs, attachments[0].Node)
	attached := map[v1.UniqueVolumeName]bool{}
	for spec, is := range answer {
		if name, ok := names[spec]; ok {
			attached[name] = is
		}
	}
	return attached, err
}

// attachTimeout limits one check of a plugin's attachments.
const attachTimeout = time.Minute

// maxReattachDelay limits the time between attempts to attach a volume whose plugin always
// says that it is detached.
const maxReattachDelay = time.Hour

// An attachChecker verifies the attached volumes periodically. The loop's goroutine uses it.
type attachChecker struct {
	loop     loopAccess
	config   *Config
	verifier AttachmentVerifier // nil: the configured Attacher cannot verify

	due      time.Time       // of the next check; zero: no volume is attached
	inFlight map[string]bool // plugins with a check in flight
	// reattached holds the volumes that were attached again because a check found them
	// detached, and that no check has found attached since. Until the delay ends a further
	// such answer has no effect.
	reattached map[v1.UniqueVolumeName]retry.Backoff
}

// newAttachChecker returns a checker whose first check is not scheduled.
func newAttachChecker(loop loopAccess, config *Config, attacher Attacher) *attachChecker {
	verifier, _ := attacher.(AttachmentVerifier)
	return &attachChecker{
		loop: loop, config: config, verifier: verifier,
		inFlight: map[string]bool{}, reattached: map[v1.UniqueVolumeName]retry.Backoff{},
	}
}

// An attachCheck is the result of verifying a plugin's attachments.
type attachCheck struct {
	plugin   string
	queried  map[v1.UniqueVolumeName]*actual.Volume // actual state when queried
	attached map[v1.UniqueVolumeName]bool
	err      error
}

// scheduleCheck schedules the next check, unless one is scheduled.
func (c *attachChecker) scheduleCheck(now time.Time) {
	if c.due.IsZero() {
		c.due = timeAfter(now, c.config.AttachCheck)
	}
}

// startChecks verifies the attached volumes of each plugin in the background. It skips a plugin whose
// last check is still in flight.
func (c *attachChecker) startChecks(ctx context.Context, now time.Time) {
	c.due = time.Time{}
	if c.verifier == nil {
		return
	}
	byPlugin, isAny := c.loop.published().attachedByPlugin()
	if !isAny {
		return // until something is attached
	}
	c.scheduleCheck(now)
	for _, plugin := range slices.Sorted(maps.Keys(byPlugin)) {
		if c.inFlight[plugin] {
			continue
		}
		c.inFlight[plugin] = true
		c.loop.startQuery(func() result { return c.queryPlugin(ctx, plugin, byPlugin[plugin]) })
	}
}

// attachedByPlugin returns the volumes that are certainly attached and have no in-flight
// operation. isAny reports whether any volume is attached, or may be.
func (s *snapshot) attachedByPlugin() (all map[string]map[v1.UniqueVolumeName]*actual.Volume, isAny bool) {
	all = map[string]map[v1.UniqueVolumeName]*actual.Volume{}
	for name, v := range s.have.Volumes.All() {
		isAny = isAny || v.Attached != actual.Absent // also a busy volume, which is checked the next time
		if v.Attached != actual.Present || v.Spec == nil || s.schedule.IsBusy(name) {
			continue
		}
		if all[v.Plugin] == nil {
			all[v.Plugin] = map[v1.UniqueVolumeName]*actual.Volume{}
		}
		all[v.Plugin][name] = v
	}
	return all, isAny
}

// queryPlugin verifies the attached volumes of a plugin.
func (c *attachChecker) queryPlugin(ctx context.Context, name string, queried map[v1.UniqueVolumeName]*actual.Volume) (r attachCheck) {
	r = attachCheck{plugin: name, queried: queried}
	defer plugincall.RecoverPanic(&r.err)
	plugin, err := c.config.Plugins.FindPluginByName(name)
	if err != nil {
		r.err = err
		return r
	}
	var attachments []Attachment
	for _, volume := range slices.Sorted(maps.Keys(queried)) {
		v := queried[volume]
		attachments = append(attachments, Attachment{Plugin: plugin, Volume: volume, Name: v.Name, Spec: v.Spec, Node: c.config.Plugins.Host().NodeName()})
	}
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	r.attached, r.err = c.verifier.VolumesAreAttached(ctx, attachments)
	return r
}

// applyAttachCheck records the result of a check.
func (c *attachChecker) applyAttachCheck(r attachCheck, now time.Time) {
	delete(c.inFlight, r.plugin)
	if r.err != nil {
		c.config.Logger.Warn("check of attached volumes failed", append(plugincall.LogAttrs(r.err), "plugin", r.plugin)...)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.attached)) {
		switch v := r.queried[name]; {
		case v == nil:
		case r.attached[name]:
			delete(c.reattached, name)
		case !c.reattached[name].Until.After(now) && c.recordDetached(name, v):
			c.reattached[name] = c.reattached[name].Increase(c.config.AttachCheck, max(c.config.AttachCheck, maxReattachDelay), now)
		}
	}
}

// endDelay ends the delay of a volume that the manager itself has detached: it is attached again
// without one.
func (c *attachChecker) endDelay(name v1.UniqueVolumeName) { delete(c.reattached, name) }

// recordDetached records that a volume is detached, and reports it. It returns false for a volume
// whose state has changed since the query: the next check verifies it.
func (c *attachChecker) recordDetached(name v1.UniqueVolumeName, queried *actual.Volume) (ok bool) {
	c.loop.update(func(w *world) { ok = w.makeDetachedUncertain(name, queried) })
	if !ok {
		return false
	}
	event := Event{Type: v1.EventTypeWarning, Reason: VolumeDetached, Unique: name, Spec: queried.Spec, Plugin: queried.Plugin,
		Message: fmt.Sprintf("volume %q is not attached any more: detached by another program", brief.Name(queried.Spec.Name()))}
	c.config.Logger.Warn("volume is not attached as it was", "volume", brief.Name(string(name)), "plugin", queried.Plugin)
	c.config.Events(event)
	return true
}

// makeDetachedUncertain makes the attachment, the device mount and the pods of a detached volume
// uncertain, so that the volume is attached, mounted and set up again. It returns false for a
// volume with an in-flight operation, and for a volume whose state has changed since the query.
// The caller holds mu.
func (w *world) makeDetachedUncertain(name v1.UniqueVolumeName, queried *actual.Volume) bool {
	if w.schedule.IsBusy(name) || w.have.Volumes.Get(name) != queried {
		return false
	}
	v := *queried
	v.Attached = actual.Uncertain
	if v.Device == actual.Present {
		v.Device = actual.Uncertain
	}
	v.Pods = slices.Clone(v.Pods)
	for key, pod := range queried.Pods.All() {
		if pod.State == actual.Present {
			v.Pods.Set(key, pod.WithState(actual.Uncertain))
		}
		w.notifyWaiters(key.Pod)
	}
	w.have.Put(name, &v)
	w.dirty[name] = true
	return true
}
