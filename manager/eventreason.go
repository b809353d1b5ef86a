package manager

import (
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/util/podvolume"
)

// eventReasons are the reasons of the events of an operation; empty: no event.
type eventReasons struct {
	done, failed             string
	doneDevice, failedDevice string // for block devices
}

var reasons = [...]eventReasons{
	operation.TearDown:      {SuccessfulUnMountVolume, FailedUnMount, SuccessfulUnMountVolume, FailedUnmapDevice},
	operation.Attach:        {SuccessfulAttachVolume, FailedAttachVolume, SuccessfulAttachVolume, FailedAttachVolume},
	operation.MountDevice:   {"", FailedMount, "", FailedMapVolume},
	operation.SetUp:         {SuccessfulMountVolume, FailedMount, SuccessfulMapVolume, FailedMapVolume},
	operation.Expand:        {VolumeResizeSuccessful, VolumeResizeFailed, VolumeResizeSuccessful, VolumeResizeFailed},
	operation.UnmountDevice: {"", FailedUnMount, "", FailedUnmapDevice},
	operation.Detach:        {"", FailedDetachVolume, "", FailedDetachVolume},
}

// eventReason returns the reason of the event of an operation; empty: no event.
func eventReason(out execution.Outcome) string {
	all, failed := reasons[out.Verb], out.Err != nil
	switch {
	case failed && out.Traits.Block:
		return all.failedDevice
	case failed:
		return all.failed
	case out.Traits.Block:
		return all.doneDevice
	}
	return all.done
}

// viewNote returns the note that distinguishes a read-only view from the volume itself, which
// has the same name. A block device has one entry for all names of its claim, and so no note.
func viewNote(key naming.PodKey) string {
	if podvolume.IsView(key.Name) {
		return " (read-only view)"
	}
	return ""
}
