package volumetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// bringUp shows source at dir, or leaves nothing there.
func (p *FakePlugin) bringUp(ctx context.Context, source, dir string, readOnly bool) error {
	req := mount.Request{Source: source, Target: dir}
	if readOnly {
		req.Options = []string{"ro"}
	}
	if err := checkPaths(source, dir); err != nil {
		return err // before anything is created
	}
	unlock, err := p.locks.lock(ctx, filepath.Clean(dir))
	if err != nil {
		return err
	}
	defer unlock()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	if err := p.config.Mounter.Mount(ctx, req); err != nil {
		// Also when it was the end of ctx that made Mount fail.
		return errors.Join(certainty(err), p.removeUnmounted(context.WithoutCancel(ctx), dir))
	}
	return nil
}

// takeDown undoes what is mounted at dir and removes the empty directory.
func (p *FakePlugin) takeDown(ctx context.Context, dir string) error {
	unlock, err := p.locks.lock(ctx, filepath.Clean(dir))
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
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	}
	return fmt.Errorf("%w: %w", volume.ErrTransient, err)
}

// unmountAndRemove reports whether it unmounted anything, also along with an error.
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

// removeUnmounted removes an empty directory, and nothing else: a kernel in
// memory does not keep a directory from being removed under a mount.
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
		return fmt.Errorf("%q is in the way of a volume: it is no directory", dir)
	}
	return os.Remove(dir)
}

// checkPaths refuses what mount.Interface would refuse.
func checkPaths(source, target string) error {
	req := mount.Request{Source: tablePath(source), Target: tablePath(target)}
	_, err := req.Parse(mount.Allow{})
	return err
}

// certainty says in the words of package volume that it is not known what is
// mounted, or that something else is.
func certainty(err error) error {
	switch {
	case errors.Is(err, mount.ErrUncertain):
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	case errors.Is(err, mount.ErrMounted):
		return fmt.Errorf("%w: %w", volume.ErrAlreadyMounted, err)
	}
	return err
}

// tablePath writes a path as a mount table does: with slashes, from "/".
func tablePath(p string) string {
	if filepath.VolumeName(p) == "" {
		return filepath.ToSlash(p)
	}
	return "/" + filepath.ToSlash(p)
}

// nativePath undoes tablePath.
func nativePath(p string) string {
	if rest := strings.TrimPrefix(p, "/"); filepath.VolumeName(rest) != "" {
		p = rest
	}
	return filepath.FromSlash(p)
}
