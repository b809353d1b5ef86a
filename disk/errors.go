package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/diskprobe"
)

// The causes of an [*Error]. Unless the error wraps mount.ErrUncertain, too, the device is
// unchanged, or a new one (MountRequest.New) is blank.
var (
	// ErrInUse: the device is mounted elsewhere, swap, a part of a RAID or a volume group,
	// or below a loop device; or its disk or one of its partitions is; or another call, of
	// any process, formats it.
	ErrInUse = errors.New("the device is in use")

	// ErrReadOnly: the device is read-only, and the call needs to write.
	ErrReadOnly = errors.New("the device is read-only")

	// ErrNotFormatted: the device is blank, and the call does not format: the mount or the device
	// is read-only, or a file system is needed, to check or to grow it.
	ErrNotFormatted = errors.New("the device is not formatted, and is not to be written to")

	// ErrTooSmall: the device is smaller than the file system on it, or too small for mkfs.
	// In the second case the device is blank again.
	ErrTooSmall = errors.New("the device is too small for the file system")

	// ErrDamaged: fsck has found errors that it does not repair by itself. It may have
	// repaired others.
	ErrDamaged = errors.New("the file system has errors that fsck -a does not repair")

	// ErrDirty: the file system was not unmounted, and its journal cannot be replayed
	// because the device is read-only. A mount option leaves the journal alone: noload
	// (ext4), norecovery (xfs), rescue=nologreplay (btrfs).
	ErrDirty = errors.New("the file system needs recovery, and the device is read-only")

	// ErrDuplicate: a file system with the same UUID is mounted, of which this one is a
	// copy. Xfs mounts both only with the mount option nouuid.
	ErrDuplicate = errors.New("a copy of a file system that is mounted: xfs needs the option nouuid")

	// ErrSwapped: the path leads to another device than at the start of the call.
	ErrSwapped = errors.New("another device has taken the place of the device")

	// ErrNoMedium: the device has no size.
	ErrNoMedium = errors.New("the device has no medium: the size is 0")

	// ErrToolMissing: a program such as mkfs.xfs is not installed.
	ErrToolMissing = errors.New("the program is not installed")
)

// errNotMade: mkfs has ended without an error, and the file system is not on the device.
var errNotMade = errors.New("the device does not carry the file system that mkfs was to make")

// An Error is a failed operation on a device.
type Error struct {
	Op     string // "format", "mount", ...
	Device string // the path
	Err    error
}

// Error returns "operation device: cause".
func (e *Error) Error() string {
	return fmt.Sprintf("%s %s: %v", e.Op, brief.Text(e.Device), brief.Of(e.Err))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// failed adds operation and device to an error that has none.
func failed(op, device string, err error) error {
	if err == nil || errors.As(err, new(*Error)) || errors.As(err, new(*InputError)) {
		return err
	}
	if op == "open" { // the mounter names the rights for a mount
		err = nameRight(err)
	}
	return &Error{Op: op, Device: device, Err: err}
}

// nameRight names the right that the opening of a device lacks, which the kernel's error does not.
func nameRight(err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	return fmt.Errorf("requires root in the initial user namespace, or permission for the device: %w", err)
}

const operation input.Operation = "disk"

// An InputError names the field of a request that was refused. No device was opened.
type InputError = input.Error

// A ContentError is a device with other content than the file system that the call needs.
// Such a device is not formatted. Wipefs(8) removes known content on purpose; unknown bytes are
// formatted over if the caller has made the device itself, see MountRequest.New.
type ContentError struct {
	Found []diskprobe.Found // all that was found, not empty
	Want  string            // the type of file system; empty if any would do
}

// Error returns the content.
func (e *ContentError) Error() string {
	var found []string
	for _, f := range e.Found {
		found = append(found, f.String())
	}
	want := e.Want
	if want == "" {
		want = "a file system"
	}
	return fmt.Sprintf("the device carries %s, expected %s; the device is unchanged", strings.Join(found, ", "), want)
}

// A ToolError is a program that failed.
type ToolError struct {
	Tool     string // "mkfs.ext4"
	ExitCode int    // -1: killed by a signal, or not started
	Output   string // the last part of its output
	Err      error  // an *exec.ExitError, ErrToolMissing, ...
}

// Error returns "program: cause: output", without the list of options that may end the output.
func (e *ToolError) Error() string {
	text := fmt.Sprintf("%s: %v", e.Tool, e.Err)
	if e.Err == nil {
		text = fmt.Sprintf("%s: exit status %d", e.Tool, e.ExitCode)
	}
	if e.Output != "" {
		text += ": " + brief.Text(strings.Join(strings.Fields(withoutUsage(e.Output)), " "))
	}
	return text
}

// withoutUsage returns the output before the list of options that some programs print after a complaint.
func withoutUsage(output string) string {
	var kept []string
	for line := range strings.Lines(output) {
		const usage = "usage: "
		if len(kept) > 0 && len(line) >= len(usage) && strings.EqualFold(line[:len(usage)], usage) {
			break
		}
		kept = append(kept, line)
	}
	return strings.Join(kept, "")
}

// Unwrap returns the cause.
func (e *ToolError) Unwrap() error { return e.Err }
