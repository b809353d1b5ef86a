package local

import (
	"slices"

	"github.com/volumekit/volumekit/util/diskprobe"
	"k8s.io/apimachinery/pkg/types"
)

// What is known when it is to be decided whether a device is formatted.
type situation struct {
	uid      types.UID // of the persistent volume
	fsType   string    // that is asked for; empty: any, or the default
	readOnly bool      // the device is not to be written to
	disk     identity
	found    []diskprobe.Found // on the device
	record   *record           // of the volume; nil: none
	marked   bool              // by the formatting of the record's file system
}

// A step is what is to be done before a device is mounted.
type step struct {
	fsType string // to mount as
	format bool
	wipe   bool   // before formatting: something half-made of our own is there
	uuid   string // of the file system that is there
}

const defaultFSType = "ext4"

// mountable are the types of file systems that a device may have.
var mountable = []string{"ext2", "ext3", "ext4", "xfs", "btrfs"}

// plan decides. Nothing is formatted but a device that is blank, or one that was
// blank when this volume began to format it and has not been mounted since.
func plan(s situation) (step, error) {
	rec := s.record
	if rec != nil && !rec.isOf(s.uid) {
		rec = nil // of another volume that had this name
	}
	if rec != nil && rec.State == stateFormatting {
		if s.isUnfinished(rec) {
			return s.format(step{wipe: len(s.found) > 0})
		}
		rec = nil // nothing was on it
	}
	if rec != nil && rec.State == stateBlock {
		rec = nil
	}
	return s.usual(rec)
}

func (s situation) usual(before *record) (step, error) {
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

// isUnfinished reports whether what is on the device can only be what formatting
// has left that was interrupted: it is the same device, and carries no signature
// but one of the file system that was to be, and nothing unknown but beside its marker.
func (s situation) isUnfinished(rec *record) bool {
	return s.disk.same(rec.Disk) && !slices.ContainsFunc(s.found, func(f diskprobe.Found) bool {
		ours := f.UUID != "" && f.UUID == rec.FSUUID || f.Kind == diskprobe.Data && s.marked
		return !ours
	})
}
