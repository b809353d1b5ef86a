package subpath

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

func cleanup(ctx context.Context, c cleaner, podDir, volume string) error {
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
	if err := c.cleanDirectory(ctx, all, path.Join(podDir, directoryName), volume, c.cleanContainer); err != nil {
		return err
	}
	// The directory may hold bind mounts of the pod's other volumes.
	err = safepath.Rmdir(context.Background(), path.Join(podDir, directoryName))
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func openDirectory(name string) (node, error) {
	fd, err := safepath.Open(context.Background(), unix.AT_FDCWD, name, unix.O_DIRECTORY)
	if err != nil {
		return node{}, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return statNode(fd)
}

// cleanDirectory calls each for every entry of a directory, and removes the directory
// if all calls succeed.
func (c cleaner) cleanDirectory(ctx context.Context, in node, above, name string, each func(ctx context.Context, in node, dir, name string) error) error {
	dir := path.Join(above, name)
	fd, err := beneath.Open(in.fd, name, beneath.ToList, in.mount)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case errors.Is(err, unix.EXDEV):
		return &fs.PathError{Op: "clean up", Path: dir, Err: errMounted}
	case err != nil:
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	n := node{fd: fd, kind: unix.S_IFDIR, mount: in.mount}
	defer n.close()
	names, err := listNames(n.fd, 0)
	if err != nil {
		return &fs.PathError{Op: "read", Path: dir, Err: err}
	}
	var errs []error
	for _, name := range names {
		if ctx.Err() != nil {
			return errors.Join(append(errs, ctxend.Error(ctx))...)
		}
		errs = append(errs, each(ctx, n, dir, name))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := unix.Unlinkat(in.fd, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: dir, Err: err}
	}
	return nil
}

func (c cleaner) cleanContainer(ctx context.Context, in node, dir, name string) error {
	return c.cleanDirectory(ctx, in, dir, name, func(ctx context.Context, in node, dir, name string) error {
		err := takeDown(ctx, c.mounter, in, dir, name)
		if errors.Is(err, unix.EBUSY) && c.detach(ctx, in, dir, name) {
			err = takeDown(ctx, c.mounter, in, dir, name)
		}
		return err
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
