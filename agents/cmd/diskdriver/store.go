package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
)

// A store is a directory that all nodes share, with a directory for each disk:
//
//	NAME/claim      a symbolic link with the name of the provisioner that has created the disk
//	NAME/image      the content of the disk
//	NAME/attached   a symbolic link with the name of the node to which the disk is attached
//	NAME/used       a symbolic link with the name of the node that uses the disk
//
// A symbolic link is made with its content or not at all. One process at a time attaches and detaches. A node makes the
// link "used" before it looks at "attached", and a detach removes "attached" before it looks at "used", so that
// one of them sees the other. A client of NFS that has changed a directory sees the changes of others in it.
//
// Calls for one disk wait for each other, also for the work of a call whose context has ended.
type store struct {
	dir   string
	calls *keylock.Map // by the names of disks
}

const (
	claimFile    = "claim"
	imageFile    = "image"
	newImages    = "image.*.new" // not complete
	attachedFile = "attached"
	usedFile     = "used"
)

func newStore(dir string) store { return store{dir, new(keylock.Map)} }

// await runs work for a disk, and waits for its end until ctx ends: the file system of the store may not answer. Work
// that has begun may be done later, so the error is uncertain then.
func await[T any](ctx context.Context, s store, disk string, work func() (T, error)) (result T, err error) {
	if ctx.Err() != nil {
		return result, volume.AsTransient(ctxend.Error(ctx))
	}
	result, began, err := keylock.Await(ctx, s.calls.Key(disk), ctxend.Kernel, work, nil)
	switch {
	case err != nil && !began:
		err = volume.AsTransient(err)
	case err != nil && ctx.Err() != nil:
		err = volume.AsUncertain(err)
	}
	return result, err
}

// do is await for work without a result.
func (s store) do(ctx context.Context, disk string, work func() error) error {
	_, err := await(ctx, s, disk, func() (none struct{}, err error) { return none, work() })
	return err
}

func (s store) path(disk, file string) string { return filepath.Join(s.dir, disk, file) }

// image returns the path of the image of a disk.
func (s store) image(disk string) string { return s.path(disk, imageFile) }

// create creates a disk for a provisioner, and returns its size. A disk that exists keeps its content and its size. The
// disk of another is a *volume.IgnoredError. After an uncertain error, remove deletes the remaining files.
func (s store) create(ctx context.Context, disk, provisioner string, size int64) (actual int64, err error) {
	return await(ctx, s, disk, func() (int64, error) {
		actual, err := s.checkOwner(disk, provisioner)
		if err != nil || actual > 0 {
			return actual, err
		}
		if err := os.Mkdir(s.path(disk, ""), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return 0, volume.AsTransient(err)
		}
		if err := s.make(disk, provisioner, size); err != nil {
			return 0, volume.AsUncertain(ofSize(err))
		}
		return size, nil
	})
}

// make makes the files of a disk in its directory. An image is linked when it is complete, and never replaced: a process
// that has been given up may do the same.
func (s store) make(disk, provisioner string, size int64) error {
	if err := os.Symlink(provisioner, s.path(disk, claimFile)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	f, err := os.CreateTemp(s.path(disk, ""), newImages)
	if err != nil {
		return err
	}
	err = errors.Join(f.Truncate(size), f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), s.image(disk))
	}
	return errors.Join(err, os.Remove(f.Name()))
}

// ofSize adds volume.ErrInfeasible to the error of a file system that has no files of a size.
func ofSize(err error) error {
	if errors.Is(err, syscall.EFBIG) {
		return fmt.Errorf("%w: %w", err, volume.ErrInfeasible)
	}
	return err
}

// errForeign reports a disk that the provisioner has not created.
var errForeign = &volume.IgnoredError{Reason: "the provisioner has not created the disk"}

// checkOwner returns the size of the image of a disk, 0 if it has none. It returns errForeign for the disk of another
// provisioner, and for an image without a claim, which an administrator has made.
func (s store) checkOwner(disk, provisioner string) (size int64, err error) {
	info, err := os.Stat(s.image(disk))
	exists := err == nil
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, volume.AsTransient(err)
	}
	switch owner, err := s.target(disk, claimFile); {
	case err != nil:
		return 0, err
	case owner != provisioner && (owner != "" || exists):
		return 0, errForeign
	case !exists:
		return 0, nil
	}
	return info.Size(), nil
}

// remove removes a disk of a provisioner. A missing one is no error; one that is attached to a node is
// volume.ErrFailedPrecondition.
func (s store) remove(ctx context.Context, disk, provisioner string) error {
	return s.do(ctx, disk, func() error {
		if _, err := s.checkOwner(disk, provisioner); err != nil {
			return err
		}
		node, err := s.holder(disk)
		switch {
		case err != nil:
			return err
		case node != "":
			return fmt.Errorf("%w: attached to node %s", volume.ErrFailedPrecondition, input.Quote(node))
		}
		return volume.AsUncertain(s.discard(disk))
	})
}

// discard removes the files of a disk that is attached to no node, in an order that lets a later call go on: a disk
// without an image is the remains of one.
func (s store) discard(disk string) error {
	files, err := filepath.Glob(s.path(disk, newImages))
	if err != nil {
		return err
	}
	for _, file := range append(files, s.image(disk), s.path(disk, claimFile), s.path(disk, "")) {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// grow makes a disk at least as large as size, and returns its size. It never becomes smaller.
func (s store) grow(ctx context.Context, disk string, size int64) (actual int64, err error) {
	return await(ctx, s, disk, func() (int64, error) {
		info, err := os.Stat(s.image(disk))
		if err != nil {
			return 0, volume.AsTransient(err)
		}
		if info.Size() >= size {
			return info.Size(), nil
		}
		f, err := os.OpenFile(s.image(disk), os.O_WRONLY, 0)
		if err != nil {
			return 0, volume.AsTransient(err)
		}
		if err := errors.Join(f.Truncate(size), f.Sync(), f.Close()); err != nil {
			return 0, volume.AsUncertain(ofSize(err))
		}
		return size, nil
	})
}

// flush writes the node's dirty pages of a disk to the image, which the next node reads.
func (s store) flush(ctx context.Context, disk string) error {
	return s.do(ctx, disk, func() error {
		f, err := os.OpenFile(s.image(disk), os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		return volume.AsTransient(err)
	})
}

// usedBy returns the disks that a node uses.
func (s store) usedBy(ctx context.Context, node string) ([]string, error) {
	return await(ctx, s, "", func() (disks []string, err error) {
		links, err := filepath.Glob(s.path("*", usedFile))
		for _, link := range links {
			if user, _ := os.Readlink(link); user == node {
				disks = append(disks, filepath.Base(filepath.Dir(link)))
			}
		}
		return disks, err
	})
}

// target returns the name in a link of a disk, or "".
func (s store) target(disk, file string) (string, error) {
	name, err := os.Readlink(s.path(disk, file))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return name, volume.AsTransient(err)
}

// holder returns the name of the node to which a disk is attached; or else that of the node that uses it, as after a
// detach that was killed; or "".
func (s store) holder(disk string) (string, error) {
	node, err := s.target(disk, attachedFile)
	if node == "" && err == nil {
		node, err = s.target(disk, usedFile)
	}
	return node, err
}

// link makes a link of a disk with the name of a node. The same link is no error, and that of another node is a
// *volume.DanglingAttachError.
func (s store) link(disk, file, node string) (made bool, err error) {
	err = os.Symlink(node, s.path(disk, file))
	if !errors.Is(err, fs.ErrExist) {
		return err == nil, volume.AsTransient(err)
	}
	current, err := s.target(disk, file)
	if err == nil && current != node {
		err = &volume.DanglingAttachError{CurrentNode: types.NodeName(current)}
	}
	return false, err
}

// unlink removes a link of a disk. A missing one is no error.
func (s store) unlink(disk, file string) error {
	if err := os.Remove(s.path(disk, file)); !errors.Is(err, fs.ErrNotExist) {
		return volume.AsTransient(err)
	}
	return nil
}

// attach attaches a disk to a node. A disk that is attached to another node, or used there, is a
// *volume.DanglingAttachError.
func (s store) attach(ctx context.Context, disk, node string) error {
	return s.do(ctx, disk, func() error {
		if _, err := os.Stat(s.image(disk)); errors.Is(err, fs.ErrNotExist) {
			return err // final
		} else if err != nil {
			return volume.AsTransient(err)
		}
		current, err := s.holder(disk)
		switch {
		case err != nil:
			return err
		case current != "" && current != node:
			return &volume.DanglingAttachError{CurrentNode: types.NodeName(current)}
		}
		_, err = s.link(disk, attachedFile, node)
		return err
	})
}

// errUsed is the error of a detach from a node that uses the disk.
var errUsed = fmt.Errorf("%w: the node uses the disk", volume.ErrFailedPrecondition)

// detach detaches a disk from a node. A disk that is not attached there is no error. While the node uses the disk the
// error is errUsed, and the disk stays attached.
func (s store) detach(ctx context.Context, disk, node string) error {
	return s.do(ctx, disk, func() error {
		if err := s.checkUnused(disk, node); err != nil {
			return err
		}
		current, err := s.target(disk, attachedFile)
		if err != nil || current != node {
			return err
		}
		if err := s.unlink(disk, attachedFile); err != nil {
			return err
		}
		used := s.checkUnused(disk, node) // the node may have begun since the first check
		if used == nil {
			return nil
		}
		if _, err := s.link(disk, attachedFile, node); err != nil {
			return volume.AsUncertain(errors.Join(used, err))
		}
		return used
	})
}

// checkUnused returns errUsed if a node uses a disk.
func (s store) checkUnused(disk, node string) error {
	user, err := s.target(disk, usedFile)
	if err == nil && user == node {
		err = errUsed
	}
	return err
}

// isAttached reports whether a disk is attached to a node.
func (s store) isAttached(ctx context.Context, disk, node string) (bool, error) {
	return await(ctx, s, disk, func() (bool, error) {
		current, err := s.target(disk, attachedFile)
		return current == node, err
	})
}

// use begins the use of a disk on a node to which it is attached, or else returns volume.ErrFailedPrecondition. A disk
// that another node uses is a *volume.DanglingAttachError.
func (s store) use(ctx context.Context, disk, node string) error {
	return s.do(ctx, disk, func() error {
		made, err := s.link(disk, usedFile, node)
		if err != nil {
			return err
		}
		current, err := s.target(disk, attachedFile)
		if err == nil && current != node {
			err = fmt.Errorf("%w: the disk is not attached to this node", volume.ErrFailedPrecondition)
		}
		if err == nil || !made {
			return err // a use that has begun before goes on
		}
		if left := s.unlink(disk, usedFile); left != nil {
			return volume.AsUncertain(errors.Join(err, left))
		}
		return err
	})
}

// release ends the use of a disk on a node. A disk that the node does not use is no error.
func (s store) release(ctx context.Context, disk, node string) error {
	return s.do(ctx, disk, func() error {
		user, err := s.target(disk, usedFile)
		if err != nil || user != node {
			return err
		}
		return s.unlink(disk, usedFile)
	})
}
