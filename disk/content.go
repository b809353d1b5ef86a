package disk

import (
	"cmp"
	"fmt"
	"io"
	"slices"

	"github.com/volumekit/volumekit/util/diskprobe"
)

// Types returns the file systems that this package makes, checks and grows.
func Types() []string { return slices.Clone(types) }

var types = []string{"ext2", "ext3", "ext4", "xfs", "btrfs"}

// DefaultType is the file system of a request without a type.
const DefaultType = "ext4"

// Content is the data on a device.
type Content struct {
	Info
	// Found are all signatures, or the first byte of unknown data; the marker is left out.
	Found []diskprobe.Found
	// Marker is the UUID of the file system whose format was interrupted. Empty: the device
	// has no marker.
	Marker string
	// inProgress: mkfs.xfs has not finished the file system.
	inProgress bool
}

// IsBlank reports whether the device carries nothing. A marker is content.
func (c Content) IsBlank() bool { return len(c.Found) == 0 && c.Marker == "" }

// FileSystem returns the file system, if the device carries nothing else.
func (c Content) FileSystem() (diskprobe.Found, bool) {
	if c.Marker != "" || c.inProgress {
		return diskprobe.Found{}, false
	}
	return diskprobe.Only(c.Found)
}

// supported returns the file system if it is one of Types, and the wanted one, unless that is empty.
func (c Content) supported(want string) (diskprobe.Found, bool) {
	there, ok := c.FileSystem()
	return there, ok && slices.Contains(types, there.Name) && (want == "" || want == there.Name)
}

// isUnknown reports whether the device carries bytes without a known signature, and nothing else.
func (c Content) isUnknown() bool {
	known := func(f diskprobe.Found) bool { return f.Kind != diskprobe.Data || f.UUID != "" }
	return len(c.Found) > 0 && c.Marker == "" && !slices.ContainsFunc(c.Found, known)
}

// IsRemains reports whether the content is blank, or left by the interrupted format of the
// file system with that UUID, and by nothing else. Unknown data counts as remains
// only beside the marker.
func (c Content) IsRemains(uuid string) bool {
	if c.Marker != "" && c.Marker != uuid {
		return false
	}
	return !slices.ContainsFunc(c.Found, func(f diskprobe.Found) bool {
		ours := f.UUID != "" && f.UUID == uuid || f.Kind == diskprobe.Data && c.Marker != ""
		return !ours
	})
}

// Interrupted returns the UUID of the format that has left the content, "" if none has. It
// reads the device alone: a caller that keeps records of its own uses IsRemains.
func (c Content) Interrupted() string {
	uuid := c.Marker
	unfinished := len(c.Found) == 1 && (c.Found[0].Kind == diskprobe.Data || c.inProgress)
	if uuid == "" && unfinished && isOwnUUID(c.Found[0].UUID) {
		uuid = c.Found[0].UUID
	}
	if uuid == "" || !c.IsRemains(uuid) {
		return ""
	}
	return uuid
}

// all returns the content with the marker, for an error.
func (c Content) all() []diskprobe.Found {
	if c.Marker == "" {
		return c.Found
	}
	return append([]diskprobe.Found{{Name: "data", Kind: diskprobe.Data}}, c.Found...)
}

// probe reads the content of a device.
func probe(h Handle) (Content, error) {
	c := Content{Info: h.Info()}
	var err error
	if c.Marker, err = readMarker(h); err != nil {
		return Content{}, fmt.Errorf("read the first sector: %w", err)
	}
	var rest io.ReaderAt = h
	if c.Marker != "" {
		rest = withoutMarker{h}
	}
	if c.Found, err = diskprobe.Probe(rest, c.Size); err != nil {
		return Content{}, err
	}
	c.inProgress = isXFSInProgress(h, c.Found)
	return c, nil
}

// isXFSInProgress reads the byte that mkfs.xfs clears at its end.
func isXFSInProgress(h Handle, found []diskprobe.Found) bool {
	if len(found) != 1 || found[0].Name != "xfs" {
		return false
	}
	const inProgressAt = 126
	var b [1]byte
	_, err := h.ReadAt(b[:], inProgressAt)
	return err == nil && b[0] == 1
}

// A step prepares a device for its mount.
type step struct {
	fsType  string
	format  bool
	replace string // the UUID of the interrupted format whose remains are replaced
}

// A wish is a file system to mount.
type wish struct {
	fsType   string // empty: any
	readOnly bool
	isNew    bool // unknown bytes on the device have no value
}

// plan derives the step before a mount from the content. Nothing is formatted but a blank device, one with
// the remains of an interrupted format, and a new one with unknown bytes.
func plan(c Content, w wish) (step, error) {
	interrupted := c.Interrupted()
	if c.IsBlank() || interrupted != "" || w.isNew && c.isUnknown() {
		if w.readOnly {
			return step{}, ErrNotFormatted
		}
		return step{fsType: cmp.Or(w.fsType, DefaultType), format: true, replace: interrupted}, nil
	}
	there, ok := c.supported(w.fsType)
	if !ok {
		return step{}, &ContentError{Found: c.all(), Want: w.fsType}
	}
	if err := checkSize(there, c.Size); err != nil {
		return step{}, err
	}
	return step{fsType: there.Name}, nil
}

// fileSystemOf returns the type of the file system, which the device must carry.
func fileSystemOf(c Content) (fsType string, err error) {
	s, err := plan(c, wish{readOnly: true}) // nothing is formatted
	return s.fsType, err
}

// checkSize refuses a file system that extends beyond the end of the device.
func checkSize(there diskprobe.Found, size int64) error {
	if there.Size > size {
		return fmt.Errorf("%w: %s of %d bytes on a device of %d", ErrTooSmall, there.Name, there.Size, size)
	}
	return nil
}
