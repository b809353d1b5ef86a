package manager

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
)

// A verbText is what an operation is called.
type verbText struct {
	name                     string
	metric, metricDevice     string // in metrics, and for block devices
	done, failed             string // reasons of events
	doneDevice, failedDevice string // and for block devices
}

var verbs = [...]verbText{
	tearDown:      {"tear down", "volume_unmount", "unmap_volume", SuccessfulUnMountVolume, FailedUnMount, SuccessfulUnMountVolume, FailedUnmapDevice},
	attach:        {"attach", "volume_attach", "volume_attach", SuccessfulAttachVolume, FailedAttachVolume, SuccessfulAttachVolume, FailedAttachVolume},
	mountDevice:   {"mount device", "device_mount", "device_mount", "", FailedMount, "", FailedMapVolume},
	setUp:         {"set up", "volume_mount", "map_volume", SuccessfulMountVolume, FailedMount, SuccessfulMapVolume, FailedMapVolume},
	expand:        {"expand", "volume_fs_resize", "volume_fs_resize", VolumeResizeSuccessful, VolumeResizeFailed, VolumeResizeSuccessful, VolumeResizeFailed},
	unmountDevice: {"unmount device", "unmount_device", "unmap_device", "", FailedUnMount, "", FailedUnmapDevice},
	detach:        {"detach", "volume_detach", "volume_detach", "", FailedDetachVolume, "", FailedDetachVolume},
}

// opposite is what undoes the operation, or what it undoes. Once one has succeeded the
// other is about something new: what failed before does not keep it waiting.
func (o operation) opposite() operation {
	for _, pair := range [][2]verb{{attach, detach}, {mountDevice, unmountDevice}, {setUp, tearDown}} {
		switch o.verb {
		case pair[0]:
			o.verb = pair[1]
			return o
		case pair[1]:
			o.verb = pair[0]
			return o
		}
	}
	return o
}

func (v verb) String() string { return verbs[v].name }

// metric is the name of the operation in metrics, as the kubelet has it.
func (v verb) metric(block bool) string {
	if block {
		return verbs[v].metricDevice
	}
	return verbs[v].metric
}

// reason is that of the event, if there is one.
func (v verb) reason(block, failed bool) string {
	text := verbs[v]
	switch {
	case failed && block:
		return text.failedDevice
	case failed:
		return text.failed
	case block:
		return text.doneDevice
	}
	return text.done
}

// eventOf is what people are told of an operation: that it failed for the first time or
// in another way than before, or that a pod has its volume.
func eventOf(out outcome, before error) (Event, bool) {
	if out.silent {
		return Event{}, false
	}
	if out.err != nil && before != nil && before.Error() == out.err.Error() {
		return Event{}, false
	}
	e := Event{
		Type: v1.EventTypeNormal, Reason: out.verb.reason(out.traits.block, out.err != nil),
		Err: out.err, Pod: out.job.pod, PodUID: out.operation.pod.pod,
		Volume: out.outer, Unique: out.volume, Spec: out.spec, Plugin: out.pluginName,
	}
	if e.Pod != nil {
		e.PodUID = e.Pod.UID
	}
	e.Message = fmt.Sprintf("%s: volume %q", out.verb, short(out.spec.Name()))
	if out.err != nil {
		e.Type = v1.EventTypeWarning
		e.Message += ": " + out.err.Error()
	}
	again := out.verb == setUp && out.after.stateOf(out.operation.pod) == present && out.before.stateOf(out.operation.pod) == present
	return e, e.Reason != "" && !(out.err == nil && again)
}

// failedMount is the event of a volume for which no operation can begin.
func failedMount(pod *v1.Pod, name string, err error) Event {
	return Event{
		Type: v1.EventTypeWarning, Reason: FailedMount, Err: err, Pod: pod, PodUID: pod.UID, Volume: name,
		Message: fmt.Sprintf("volume %q: %v", short(name), err),
	}
}
