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

// An attachCheck is the result of verifying a plugin's attachments.
type attachCheck struct {
	plugin   string
	queried  map[v1.UniqueVolumeName]*actual.Volume // actual state when queried
	attached map[v1.UniqueVolumeName]bool
	err      error
}

// checkAttachments verifies the attached volumes of each plugin in the background. It skips
// a plugin whose last check is still in flight.
func (l *loop) checkAttachments(ctx context.Context, now time.Time) {
	l.attachCheck = time.Time{}
	verifier, ok := l.attacher.(AttachmentVerifier)
	if !ok {
		return
	}
	byPlugin, isAny := l.attachedByPlugin()
	if !isAny {
		return // until something is attached
	}
	l.attachCheck = timeAfter(now, l.config.AttachCheck)
	for _, plugin := range slices.Sorted(maps.Keys(byPlugin)) {
		if l.checking[plugin] {
			continue
		}
		l.checking[plugin] = true
		l.background.startQuery(func() result { return l.queryAttached(ctx, verifier, plugin, byPlugin[plugin]) })
	}
}

// armAttachCheck schedules the check of attachments, unless it is scheduled.
func (l *loop) armAttachCheck(now time.Time) {
	if l.attachCheck.IsZero() {
		l.attachCheck = timeAfter(now, l.config.AttachCheck)
	}
}

// attachedByPlugin returns the volumes that are certainly attached and have no in-flight
// operation. isAny reports whether any volume is attached, or may be.
func (l *loop) attachedByPlugin() (all map[string]map[v1.UniqueVolumeName]*actual.Volume, isAny bool) {
	s := l.published()
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

// queryAttached verifies the attached volumes of a plugin.
func (l *loop) queryAttached(ctx context.Context, verifier AttachmentVerifier, name string, queried map[v1.UniqueVolumeName]*actual.Volume) (c attachCheck) {
	c = attachCheck{plugin: name, queried: queried}
	defer plugincall.RecoverPanic(&c.err)
	plugin, err := l.config.Plugins.FindPluginByName(name)
	if err != nil {
		c.err = err
		return c
	}
	var attachments []Attachment
	for _, volume := range slices.Sorted(maps.Keys(queried)) {
		v := queried[volume]
		attachments = append(attachments, Attachment{Plugin: plugin, Volume: volume, Name: v.Name, Spec: v.Spec, Node: l.config.Plugins.Host().NodeName()})
	}
	ctx, cancel := context.WithTimeout(ctx, attachTimeout)
	defer cancel()
	c.attached, c.err = verifier.VolumesAreAttached(ctx, attachments)
	return c
}

// applyAttachCheck records the result of a check.
func (l *loop) applyAttachCheck(c attachCheck, now time.Time) {
	delete(l.checking, c.plugin)
	if c.err != nil {
		l.config.Logger.Warn("check of attached volumes failed", append(plugincall.LogAttrs(c.err), "plugin", c.plugin)...)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.attached)) {
		switch v := c.queried[name]; {
		case v == nil:
		case c.attached[name]:
			delete(l.reattached, name)
		case !l.reattached[name].Until.After(now) && l.recordDetached(name, v):
			l.reattached[name] = l.reattached[name].Increase(l.config.AttachCheck, max(l.config.AttachCheck, maxReattachDelay), now)
		}
	}
}

// maxReattachDelay limits the time between attempts to attach a volume whose plugin always
// says that it is detached.
const maxReattachDelay = time.Hour

// recordDetached makes the attachment, the device mount and the pods of a detached volume
// uncertain, so that the volume is attached, mounted and set up again. It returns false for
// a volume whose state has changed since the query: the next check verifies it.
func (l *loop) recordDetached(name v1.UniqueVolumeName, queried *actual.Volume) bool {
	l.mu.Lock()
	if l.schedule.IsBusy(name) || l.have.Volumes.Get(name) != queried {
		l.mu.Unlock()
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
		l.notifyWaiters(key.Pod)
	}
	l.have.Put(name, &v)
	l.dirty[name] = true
	l.unlock()
	event := Event{Type: v1.EventTypeWarning, Reason: VolumeDetached, Unique: name, Spec: v.Spec, Plugin: v.Plugin,
		Message: fmt.Sprintf("volume %q is not attached any more: detached by another program", brief.Name(v.Spec.Name()))}
	l.config.Logger.Warn("volume is not attached as it was", "volume", brief.Name(string(name)), "plugin", v.Plugin)
	l.config.Events(event)
	return true
}
