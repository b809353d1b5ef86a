package subpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strconv"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

const (
	directoryMode = 0o750
	fileMode      = 0o640
)

// makeTarget creates the directory or file to mount on, if it does not exist.
func makeTarget(req Request, isDir bool) error {
	if isDir {
		_, err := safepath.MkdirAll(context.Background(), path.Clean(req.PodDir), req.Target(), directoryMode)
		if errors.Is(err, unix.ENOTDIR) && isFile(req) {
			err = errOtherKind
		}
		return err
	}
	if _, err := safepath.MkdirAll(context.Background(), path.Clean(req.PodDir), req.container(), directoryMode); err != nil {
		return err
	}
	parent, err := safepath.Open(context.Background(), unix.AT_FDCWD, req.container(), unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	name := strconv.Itoa(req.Index)
	err = makeFile(parent, name)
	if errors.Is(err, unix.EEXIST) {
		err = checkKind(parent, name, isDir)
	}
	if err != nil {
		return &fs.PathError{Op: "create", Path: req.Target(), Err: err}
	}
	return nil
}

// isFile reports whether the target exists and is not a directory.
func isFile(req Request) bool {
	parent, err := safepath.Open(context.Background(), unix.AT_FDCWD, req.container(), unix.O_DIRECTORY)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(parent) }()
	const isDir = true
	return errors.Is(checkKind(parent, strconv.Itoa(req.Index), isDir), errOtherKind)
}

func makeFile(parent int, name string) error {
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := retryInterrupted(func() (int, error) { return unix.Openat(parent, name, flags, fileMode) })
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

// checkKind returns errOtherKind unless an entry is a directory, or is none, as isDir says.
func checkKind(parent int, name string, isDir bool) error {
	n, err := openNode(parent, name)
	if err != nil {
		return err
	}
	defer n.close()
	if n.isDirectory() != isDir {
		return errOtherKind
	}
	return nil
}

// clearTarget unmounts and removes the target.
func clearTarget(ctx context.Context, m mount.Interface, req Request) error {
	parent, err := safepath.Open(context.Background(), unix.AT_FDCWD, req.container(), unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: req.container(), Err: err}
	}
	in, err := statNode(parent)
	if err != nil {
		return err
	}
	defer in.close()
	return takeDown(ctx, m, in, req.container(), strconv.Itoa(req.Index))
}

// takeDown unmounts all mounts on an entry of a directory, and removes the entry.
func takeDown(ctx context.Context, m mount.Interface, in node, dir, name string) error {
	target := path.Join(dir, name)
	if err := unmountAll(ctx, m, target); err != nil {
		return err
	}
	if err := remove(in, name); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: target, Err: err}
	}
	return nil
}

// unmountAll unmounts all stacked mounts of a target.
func unmountAll(ctx context.Context, m mount.Interface, target string) error {
	const most = 64
	for range most {
		mounted, err := m.IsMountPoint(ctx, target)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !mounted {
			return nil
		}
		if err == nil {
			err = unmount(ctx, m, target)
		}
		if err != nil {
			return err
		}
	}
	return &fs.PathError{Op: "unmount", Path: target, Err: mount.ErrBusy}
}

// unmount unmounts the topmost mount. It reads the mount table only if the kernel returns
// EBUSY, as it does for a target with mounts below it.
func unmount(ctx context.Context, m mount.Interface, target string) error {
	err := m.Unmount(ctx, target)
	if errors.Is(err, unix.EBUSY) && !errors.Is(err, mount.ErrUncertain) {
		return m.UnmountTree(ctx, target)
	}
	return err
}

var (
	errMounted = fmt.Errorf("the entry is a mount point: %w", unix.EBUSY)
	errNotOurs = errors.New("neither a directory nor an empty file")
)

// remove removes an empty directory, or a file that it has found to be empty.
func remove(in node, name string) error {
	err := unix.Unlinkat(in.fd, name, unix.AT_REMOVEDIR)
	switch {
	case errors.Is(err, unix.EBUSY):
		return errMounted
	case !errors.Is(err, unix.ENOTDIR):
		return err
	}
	n, err := openNode(in.fd, name)
	if err != nil {
		return err
	}
	defer n.close()
	switch {
	case n.mount != in.mount:
		return errMounted
	case n.kind == unix.S_IFREG && n.size == 0:
		return unix.Unlinkat(in.fd, name, 0)
	}
	return errNotOurs
}

// namesIn returns up to n names of a directory's entries; all for n <= 0.
func namesIn(dir, n int) ([]string, error) {
	fd, err := retryInterrupted(func() (int, error) { return unix.Openat(dir, ".", toList, 0) })
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	return listNames(fd, n)
}

// listNames is namesIn for a descriptor that is open for listing, at its beginning.
func listNames(fd, n int) (names []string, err error) {
	const size = 4 << 10
	buf := make([]byte, size)
	for n <= 0 || len(names) < n {
		read, err := retryInterrupted(func() (int, error) { return unix.ReadDirent(fd, buf) })
		if read <= 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:read], -1, names)
	}
	return names[:n], nil
}
