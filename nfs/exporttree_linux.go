package nfs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// An exportTree holds the root of the export open. Each step goes from an open directory to one of
// its entries, without following symbolic links, and stays in the mount of the root. Its methods
// wait for the server.
type exportTree struct {
	path  string
	fd    int
	mount int
}

// openTree opens the export at a directory, which may be below symbolic links.
func openTree(ctx context.Context, dir string) (*exportTree, error) {
	resolved, err := podvolume.ResolveLinks(ctx, dir)
	if err != nil {
		return nil, err
	}
	fd, err := safepath.Open(ctx, unix.AT_FDCWD, resolved, unix.O_DIRECTORY)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: resolved, Err: err}
	}
	mount, err := safepath.MountID(fd)
	if err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &exportTree{resolved, fd, mount}, nil
}

// openMountedTree opens the export at a mount point.
func openMountedTree(ctx context.Context, dir string) (*exportTree, error) {
	around, err := openTree(ctx, path.Dir(dir))
	if err != nil {
		return nil, err
	}
	defer around.close()
	tree, err := openTree(ctx, dir)
	if err == nil && tree.mount == around.mount {
		tree.close()
		return nil, fmt.Errorf("%s: %w", dir, errNotMounted)
	}
	return tree, err
}

func (t *exportTree) close() { _ = unix.Close(t.fd) }

// size returns the size of the export's file system in bytes, or 0 if the server does not report it.
func (t *exportTree) size() (int64, error) {
	var usage unix.Statfs_t
	if err := unix.Fstatfs(t.fd, &usage); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: t.path, Err: err}
	}
	if usage.Frsize <= 0 || usage.Blocks > uint64(math.MaxInt64/usage.Frsize) {
		return 0, nil
	}
	return int64(usage.Blocks) * usage.Frsize, nil
}

// create creates a directory, or completes one that an earlier call for the volume began. After
// an error that is not uncertain the directory does not exist, unless it is shared or another's.
func (t *exportTree) create(ctx context.Context, d directory, begun bool) error {
	if err := t.own(d); err != nil {
		isOther := errors.As(err, new(*ownedError)) || errors.Is(err, errOccupied)
		absent := isOther || !begun && isCertain(err)
		if absent && t.forget(d.volume) == nil {
			return err
		}
		return volume.AsUncertain(err)
	}
	made, err := t.mkdirAll(ctx, d)
	if err == nil || !isCertain(err) {
		return outcome(err)
	}
	if t.removeMade(d, made) != nil {
		return volume.AsUncertain(err)
	}
	return err
}

// revert removes the empty directory that an earlier call for the volume began, unless it is shared.
func (t *exportTree) revert(d directory) error {
	if d.shared() {
		return t.forget(d.volume)
	}
	return t.dispose(context.Background(), d.rel, d.volume, func(int) error { return t.rmdir(d.rel) })
}

// refusals are errors of a server or of the kernel by which a call has changed nothing.
var refusals = []error{
	unix.EACCES, unix.EPERM, unix.EROFS, unix.ENOSPC, unix.EDQUOT, unix.EMLINK, unix.EINVAL,
	unix.ENAMETOOLONG, unix.ELOOP, unix.ENOTDIR, errOccupied, errCrossing,
}

// outcome returns an error as uncertain unless it is a refusal.
func outcome(err error) error {
	isRefusal := func(refusal error) bool { return errors.Is(err, refusal) }
	if err == nil || errors.As(err, new(*ownedError)) || slices.ContainsFunc(refusals, isRefusal) {
		return err
	}
	return volume.AsUncertain(err)
}

// isCertain reports whether an error is a refusal.
func isCertain(err error) bool { return volume.KindOf(outcome(err)) != volume.Uncertain }

// mkdirAll creates the missing parents and the directory, with its owner and its mode, and returns
// the paths that it created. A directory that is not empty keeps its uid, gid and mode, which a
// program may rely on; an empty one could be that of an interrupted call.
func (t *exportTree) mkdirAll(ctx context.Context, d directory) (made []string, err error) {
	at, err := t.open(".")
	for i, part := range strings.Split(d.rel, "/") {
		if err == nil && ctx.Err() != nil {
			err = errors.Join(ctxend.Error(ctx), unix.Close(at))
		}
		if err != nil {
			return made, err
		}
		rel := strings.Join(strings.Split(d.rel, "/")[:i+1], "/")
		var created bool
		next := -1
		created, next, err = t.enter(at, part)
		_ = unix.Close(at)
		if created {
			made = append(made, rel)
		}
		switch {
		case err != nil:
			err = &fs.PathError{Op: "mkdir", Path: rel, Err: err}
		case rel == d.rel:
			hasNoFiles := created
			if !created {
				hasNoFiles, err = isEmpty(next)
			}
			if hasNoFiles {
				err = setAttributes(next, d)
			}
			_ = unix.Close(next)
			return made, err
		case created:
			err = setAttributes(next, directory{rel: rel, mode: 0o755, uid: -1, gid: -1})
		}
		if err != nil && next >= 0 {
			_ = unix.Close(next)
		}
		at = next
	}
	return made, err
}

// enter opens an entry of a directory, and creates it if it does not exist.
func (t *exportTree) enter(dir int, name string) (created bool, fd int, err error) {
	err = unix.Mkdirat(dir, name, 0o755)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return false, -1, err
	}
	created = err == nil
	fd, err = t.openIn(dir, name)
	return created, fd, err
}

// open opens a directory below the root, or the root itself as ".".
func (t *exportTree) open(rel string) (int, error) {
	fd, err := t.openIn(t.fd, rel)
	if err != nil {
		return -1, &fs.PathError{Op: "open", Path: rel, Err: err}
	}
	return fd, nil
}

func (t *exportTree) openIn(dir int, rel string) (int, error) {
	fd, err := safepath.Open(context.Background(), dir, rel, unix.O_DIRECTORY)
	if err != nil {
		return -1, err
	}
	mount, err := safepath.MountID(fd)
	if err == nil && mount != t.mount {
		err = errCrossing
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// isEmpty reports whether an open directory is empty.
func isEmpty(dir int) (bool, error) {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false, &fs.PathError{Op: "open", Path: ".", Err: err}
	}
	f := os.NewFile(uintptr(fd), ".")
	defer func() { _ = f.Close() }()
	if _, err = f.Readdirnames(1); errors.Is(err, io.EOF) {
		return true, nil
	}
	return false, err
}

// setAttributes sets owner and mode of an open directory, in this order: a change of the owner
// clears bits of the mode.
func setAttributes(dir int, d directory) error {
	fd, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: d.rel, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	var is unix.Stat_t
	if err := unix.Fstat(fd, &is); err != nil {
		return &fs.PathError{Op: "stat", Path: d.rel, Err: err}
	}
	if (d.uid >= 0 && uint32(d.uid) != is.Uid) || (d.gid >= 0 && uint32(d.gid) != is.Gid) {
		if err := unix.Fchown(fd, d.uid, d.gid); err != nil {
			return &fs.PathError{Op: "chown", Path: d.rel, Err: err}
		}
		is.Mode = 0 // changed by the kernel
	}
	if is.Mode&0o7777 == d.mode && is.Mode != 0 {
		return nil
	}
	if err := unix.Fchmod(fd, d.mode); err != nil {
		return &fs.PathError{Op: "chmod", Path: d.rel, Err: err}
	}
	return nil
}

// removeMade reverts mkdirAll, and returns nil if the directory of the volume is gone. It removes
// empty directories only.
func (t *exportTree) removeMade(d directory, made []string) error {
	if !d.shared() && !slices.Contains(made, d.rel) {
		made = append(made, d.rel) // by an earlier call
	}
	var left error
	for _, rel := range slices.Backward(made) {
		err := t.rmdir(rel)
		gone := err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
		if rel == d.rel && !gone {
			left = err
		}
	}
	if left != nil {
		return left
	}
	if !d.shared() {
		if err := t.disown(d.rel, d.owner); err != nil {
			return err
		}
	}
	return t.forget(d.volume)
}

// rmdir removes an empty directory.
func (t *exportTree) rmdir(rel string) error {
	parent, err := t.open(path.Dir(rel))
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	if err := unix.Unlinkat(parent, path.Base(rel), unix.AT_REMOVEDIR); err != nil {
		return &fs.PathError{Op: "rmdir", Path: rel, Err: err}
	}
	return nil
}
