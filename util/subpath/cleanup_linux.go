package subpath

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

func cleanup(ctx context.Context, m mount.Interface, podDir, volume string) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	all, err := openDirectory(path.Join(podDir, directoryName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer all.close()
	c := cleaner{ctx: ctx, mounter: m}
	if err := c.directory(all, path.Join(podDir, directoryName), volume, c.container); err != nil {
		return err
	}
	// Other volumes of the pod may have something there.
	err = safepath.Rmdir(path.Join(podDir, directoryName))
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func openDirectory(name string) (node, error) {
	fd, err := safepath.Open(unix.AT_FDCWD, name, unix.O_DIRECTORY)
	if err != nil {
		return node{}, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return lookAt(fd)
}

type cleaner struct {
	ctx     context.Context
	mounter mount.Interface
}

// directory does something with each entry of a directory, and removes the directory if
// all of it went well.
func (c cleaner) directory(in node, above, name string, each func(in node, dir, name string) error) error {
	dir := path.Join(above, name)
	n, err := openNode(in.fd, name)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer n.close()
	if n.mount != in.mount {
		return &fs.PathError{Op: "clean up", Path: dir, Err: errMounted}
	}
	names, err := namesIn(n.fd, 0)
	if err != nil {
		return &fs.PathError{Op: "read", Path: dir, Err: err}
	}
	var errs []error
	for _, name := range names {
		if c.ctx.Err() != nil {
			return errors.Join(append(errs, ctxend.Error(c.ctx))...)
		}
		errs = append(errs, each(n, dir, name))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := unix.Unlinkat(in.fd, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: dir, Err: err}
	}
	return nil
}

func (c cleaner) container(in node, dir, name string) error {
	return c.directory(in, dir, name, func(in node, dir, name string) error {
		return takeDown(c.ctx, c.mounter, in, dir, name)
	})
}

func volumes(podDir string) ([]string, error) {
	all, err := openDirectory(path.Join(podDir, directoryName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer all.close()
	names, err := namesIn(all.fd, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path.Join(podDir, directoryName), Err: err}
	}
	return names, nil
}
