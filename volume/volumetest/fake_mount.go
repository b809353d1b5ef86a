package volumetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// bringUp mounts source at dir, or leaves nothing at dir.
func (p *FakePlugin) bringUp(ctx context.Context, source, dir string, readOnly bool) error {
	req := mount.Request{Source: source, Target: dir}
	if readOnly {
		req.Options = []string{"ro"}
	}
	if err := checkPaths(source, dir); err != nil {
		return err // before anything is created
	}
	unlock, err := p.locks.Lock(ctx, filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer unlock()
	if err := makeDirs(dir); err != nil {
		return err
	}
	if err := p.config.Mounter.Mount(ctx, req); err != nil {
		// Also if Mount failed because ctx ended.
		return errors.Join(certainty(err), p.removeUnmounted(context.WithoutCancel(ctx), dir))
	}
	return nil
}

// takeDown unmounts all mounts at dir and removes the empty directory.
func (p *FakePlugin) takeDown(ctx context.Context, dir string) error {
	unlock, err := p.locks.Lock(ctx, filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer unlock()
	undone, err := p.unmountAndRemove(ctx, dir)
	var refused *mount.InputError
	switch {
	case err == nil, !undone && errors.As(err, &refused):
		return err
	case undone, errors.Is(err, mount.ErrUncertain):
		return volume.AsUncertain(err)
	}
	return volume.AsTransient(err)
}

// unmountAndRemove reports whether it unmounted a mount, also along with an error.
func (p *FakePlugin) unmountAndRemove(ctx context.Context, dir string) (undone bool, err error) {
	for {
		mounted, err := p.config.Mounter.IsMountPoint(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return undone, nil
		}
		if err != nil {
			return undone, err
		}
		if !mounted {
			return undone, p.removeUnmounted(ctx, dir)
		}
		if err := p.config.Mounter.Unmount(ctx, dir); err != nil {
			return undone, err
		}
		undone = true
	}
}

// removeUnmounted removes an empty directory that is not a mount point, which a kernel in
// memory does not prevent from being removed.
func (p *FakePlugin) removeUnmounted(ctx context.Context, dir string) error {
	mounted, err := p.config.Mounter.IsMountPoint(ctx, dir)
	if err != nil || mounted {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%q: not a directory", dir)
	}
	return os.Remove(dir)
}

// checkPaths refuses paths that mount.Interface would refuse.
func checkPaths(source, target string) error {
	req := mount.Request{Source: tablepath.Of(source), Target: tablepath.Of(target)}
	_, err := req.Parse(mount.Allow{})
	return err
}

// certainty wraps an error of the mounter in the errors of package volume for an uncertain mount
// or another mount.
func certainty(err error) error {
	switch {
	case errors.Is(err, mount.ErrUncertain):
		return volume.AsUncertain(err)
	case errors.Is(err, mount.ErrMounted):
		return fmt.Errorf("%w: %w", volume.ErrAlreadyMounted, err)
	}
	return err
}

// makeDirs creates a directory and its parents. It retries if another goroutine removes an
// empty parent meanwhile, as the manager does after a tear-down.
func makeDirs(dir string) (err error) {
	const tries = 100
	for range tries {
		if err = os.MkdirAll(dir, 0o750); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}
