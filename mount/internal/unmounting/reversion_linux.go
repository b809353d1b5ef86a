package unmounting

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/volumekit/volumekit/mount/internal/inflight"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/record"
	"golang.org/x/sys/unix"
)

// An Attachment is a mount that this process has just attached.
type Attachment struct {
	FD int // the root of the mount
	// Parent is the directory that holds the mount point, and Name the name of the mount
	// point; or Parent is -1, on kernels with unique mount IDs (Linux 6.8).
	Parent int
	Name   string
}

// coverTimeout bounds the wait for other processes that have mounted on top of an attachment
// in the same instant. Processes with this package unmount theirs at once.
const coverTimeout = time.Second

// Revert unmounts an attachment, and no other mount. Since umount2(2) removes the topmost
// mount, also by the path of a descriptor, Revert waits until no other mount covers the
// attachment.
func Revert(ctx context.Context, a Attachment) error {
	for begin := time.Now(); ; time.Sleep(100 * time.Microsecond) {
		attached, err := a.isAttached()
		if err != nil || !attached {
			return err
		}
		covered, err := a.isCovered()
		if err != nil {
			return err
		}
		if !covered {
			if err := a.detach(); err != nil {
				return err
			}
			continue
		}
		waited := time.Since(begin)
		if waited > coverTimeout || ctx.Err() != nil && waited > inflight.Grace {
			return fmt.Errorf("covered by another mount: %w", unix.EBUSY)
		}
	}
}

// detach unmounts the topmost mount at the attachment, with the mounts inside it. It makes the
// attachment private first: propagation would also unmount the mounts inside its peers.
func (a Attachment) detach() error {
	if err := makePrivate(a.FD); err != nil {
		return err
	}
	return ignoreError(unix.Unmount(kernel.DescriptorPath(a.FD), unix.MNT_DETACH), unix.EINVAL)
}

// isAttached reports whether the mount is in the mount table.
func (a Attachment) isAttached() (bool, error) {
	_, err := mountinfo.StatusOf(a.FD)
	return err == nil, ignoreError(err, fs.ErrNotExist)
}

// isCovered reports whether another mount is on top of the attachment.
func (a Attachment) isCovered() (bool, error) {
	if a.Parent < 0 {
		unique, err := kernel.UniqueMountID(a.FD)
		if err != nil {
			return false, err
		}
		return hasMountOnRoot(unique)
	}
	id, err := kernel.Identify(a.FD)
	if err != nil {
		return false, err
	}
	top, err := kernel.TopMountID(a.Parent, a.Name)
	return top != id.Mount, err
}

// hasMountOnRoot reports whether a mount is attached at the root of a mount.
func hasMountOnRoot(unique uint64) (bool, error) {
	inside, err := record.ListIn(unique)
	if err != nil {
		return false, err
	}
	var reader record.Reader
	r, err := reader.Read(unique, record.WantPoint)
	if err != nil {
		return false, err
	}
	point := string(r.MountPoint())
	for _, id := range inside {
		r, err := reader.Read(id, record.WantMount|record.WantPoint)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		if err == nil && r.Parent == unique && string(r.MountPoint()) == point {
			return true, nil
		}
	}
	return false, nil
}
