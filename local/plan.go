package local

import (
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/util/diskprobe"
	"k8s.io/apimachinery/pkg/types"
)

// A situation has the facts that decide whether a device is formatted.
type situation struct {
	uid      types.UID // of the persistent volume
	fsType   string    // the requested type; empty: any, or the default
	readOnly bool      // the device must not be written to
	size     int64     // of the device, in bytes
	disk     disk.Identity
	found    []diskprobe.Found // the signatures on the device
	record   *record           // of the volume; nil: none
	marked   bool              // by the formatting of the record's file system
}

// A step is the preparation of a device for its mount.
type step struct {
	fsType string // to mount as
	format bool
	// replace is the UUID of the interrupted format of this volume whose remains are
	// replaced; empty: the device is blank.
	replace string
	uuid    string // of the file system on the device
}

const defaultFSType = disk.DefaultType

// mountable lists the supported types of file systems.
var mountable = disk.Types()

// plan returns the next step. It permits a format only of a device that is blank, or that was
// blank when this volume began to format it and has not been mounted since.
func plan(s situation) (step, error) {
	rec := s.record
	if rec != nil && !rec.isOf(s.uid) {
		rec = nil // of an earlier volume with this name
	}
	if rec != nil && rec.State == stateFormatting {
		if s.isUnfinished(rec) {
			how := step{}
			if len(s.found) > 0 {
				how.replace = rec.FSUUID
			}
			return s.format(how)
		}
		rec = nil // the device was empty
	}
	if rec != nil && rec.State == stateBlock {
		rec = nil
	}
	return s.usualStep(rec)
}

func (s situation) usualStep(before *record) (step, error) {
	if len(s.found) == 0 {
		if before != nil {
			return step{}, ErrDeviceSwapped
		}
		return s.format(step{})
	}
	there, ok := diskprobe.Only(s.found)
	if !ok || !slices.Contains(mountable, there.Name) {
		return step{}, &ContentError{Found: s.found, Want: s.fsType}
	}
	if before != nil && before.FSUUID != there.UUID {
		return step{}, ErrDeviceSwapped
	}
	if s.fsType != "" && s.fsType != there.Name {
		return step{}, &ContentError{Found: s.found, Want: s.fsType}
	}
	if there.Size > s.size {
		return step{}, fmt.Errorf("%w: %s of %d bytes on a device of %d", ErrDeviceTooSmall, there.Name, there.Size, s.size)
	}
	return step{fsType: there.Name, uuid: there.UUID}, nil
}

func (s situation) format(how step) (step, error) {
	if s.readOnly {
		return step{}, ErrNotFormatted
	}
	how.format, how.fsType = true, s.fsType
	if how.fsType == "" {
		how.fsType = defaultFSType
	}
	return how, nil
}

// isUnfinished reports whether the device's content can only be the remains of an interrupted
// format: it is the same device, its only signature is that of the planned file system, and
// it has no unknown data without the format's marker.
func (s situation) isUnfinished(rec *record) bool {
	return s.disk.IsSame(rec.Disk) && !slices.ContainsFunc(s.found, func(f diskprobe.Found) bool {
		ours := f.UUID != "" && f.UUID == rec.FSUUID || f.Kind == diskprobe.Data && s.marked
		return !ours
	})
}
