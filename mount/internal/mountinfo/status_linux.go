package mountinfo

import (
	"errors"
	"slices"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/record"
)

// StatusOf returns the status of the attached mount that fd is in: by statmount(2), or else
// from the mount table, without the unique mount ID of the parent and without the
// propagation.
func StatusOf(fd int) (record.Basic, error) {
	status, err := StatMount(fd)
	if !errors.Is(err, errors.ErrUnsupported) {
		return status, err
	}
	entry, err := EntryOf(fd)
	if err != nil {
		return record.Basic{}, err
	}
	return record.Basic{
		ParentID:      uint64(entry.Parent),
		Attrs:         entry.Flags.Attributes(),
		IDMapped:      entry.IDMapped(),
		SuperReadOnly: slices.Contains(entry.SuperOptions, "ro"),
		Daemon:        entry.HasDaemon(),
	}, nil
}

// StatMount returns the status of the attached mount that fd is in, by statmount(2) (Linux
// 6.8). Without the call the error wraps errors.ErrUnsupported.
func StatMount(fd int) (record.Basic, error) {
	unique, err := kernel.UniqueMountID(fd)
	if err != nil {
		return record.Basic{}, err
	}
	return record.ReadBasic(unique)
}
