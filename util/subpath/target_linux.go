package subpath

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// makeTarget makes the directory or file that is mounted on, if it is not there.
func makeTarget(req Request, dir bool) error {
	if _, err := safepath.MkdirAll(path.Clean(req.PodDir), req.container(), directoryMode); err != nil {
		return err
	}
	parent, err := safepath.Open(unix.AT_FDCWD, req.container(), unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(parent) }()
	name := strconv.Itoa(req.Index)
	if dir {
		err = unix.Mkdirat(parent, name, directoryMode)
	} else {
		err = makeFile(parent, name)
	}
	if errors.Is(err, unix.EEXIST) {
		err = checkKind(parent, name, dir)
	}
	if err != nil {
		return &fs.PathError{Op: "create", Path: req.Target(), Err: err}
	}
	return nil
}

func makeFile(parent int, name string) error {
	const flags = unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := again(func() (int, error) { return unix.Openat(parent, name, flags, fileMode) })
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

func checkKind(parent int, name string, dir bool) error {
	n, err := openNode(parent, name)
	if err != nil {
		return err
	}
	defer n.close()
	if n.isDirectory() != dir {
		return errOtherKind
	}
	return nil
}

// clearTarget takes away what the target is.
func clearTarget(ctx context.Context, m mount.Interface, req Request) error {
	parent, err := safepath.Open(unix.AT_FDCWD, req.container(), unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: req.container(), Err: err}
	}
	in, err := lookAt(parent)
	if err != nil {
		return err
	}
	defer in.close()
	return takeDown(ctx, m, in, req.container(), strconv.Itoa(req.Index))
}

// takeDown unmounts what is mounted on an entry of a directory, and removes that.
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

// unmountAll is for whatever is on top of each other.
func unmountAll(ctx context.Context, m mount.Interface, target string) error {
	const most = 64
	for range most {
		mounted, err := m.IsMountPoint(ctx, target)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !mounted {
			return nil
		}
		if err == nil {
			err = m.UnmountTree(ctx, target)
		}
		if err != nil {
			return err
		}
	}
	return &fs.PathError{Op: "unmount", Path: target, Err: mount.ErrBusy}
}

var (
	errMounted = fmt.Errorf("something is mounted there: %w", unix.EBUSY)
	errNotOurs = errors.New("neither a directory nor an empty file")
)

// remove is of what is empty, and has been looked at.
func remove(in node, name string) error {
	n, err := openNode(in.fd, name)
	if err != nil {
		return err
	}
	defer n.close()
	switch {
	case n.mount != in.mount:
		return errMounted
	case n.isDirectory():
		return unix.Unlinkat(in.fd, name, unix.AT_REMOVEDIR)
	case n.kind == unix.S_IFREG && n.size == 0:
		return unix.Unlinkat(in.fd, name, 0)
	}
	return errNotOurs
}

// namesIn returns up to n names of entries of a directory, or all.
func namesIn(dir, n int) ([]string, error) {
	fd, err := again(func() (int, error) { return unix.Openat(dir, ".", toList, 0) })
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "directory")
	defer func() { _ = file.Close() }()
	names, err := file.Readdirnames(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return names, err
}
