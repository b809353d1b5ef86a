package nfsserver

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// A files is the directory in which a server has its mounts: the kernel's control files,
// pipes, and the tree of the clients. The zero value has none.
type files struct {
	dir     string
	exports []Export
}

func (f files) nfsd() string  { return filepath.Join(f.dir, "nfsd") }
func (f files) pipes() string { return filepath.Join(f.dir, "pipes") }
func (f files) tree() string  { return filepath.Join(f.dir, "tree") }

// pathOf returns the path of a directory in the tree.
func (f files) pathOf(dir string) string { return filepath.Join(f.tree(), dir) }

// inTree returns the exports with their paths in the tree, the root first.
func (f files) inTree() []Export {
	all := []Export{{Dir: f.tree(), ReadOnly: true}}
	for _, e := range f.exports {
		e.Dir = f.pathOf(e.Dir)
		all = append(all, e)
	}
	return all
}

// find returns the number of a directory in exports, or -1.
func (f files) find(dir string) int {
	return slices.IndexFunc(f.exports, func(e Export) bool { return e.Dir == dir })
}

// add bind mounts a directory in the tree, and replaces an earlier export of it.
func (f *files) add(e Export) error {
	if !filepath.IsAbs(e.Dir) {
		return fmt.Errorf("%q is no absolute path", e.Dir)
	}
	if err := f.remove(e.Dir); err != nil {
		return err
	}
	if i := f.find(e.Dir); i >= 0 {
		f.exports[i] = e
	} else {
		f.exports = append(f.exports, e)
	}
	return mount(e.Dir, f.pathOf(e.Dir), "", unix.MS_BIND)
}

// remove reverts add. It is idempotent.
func (f *files) remove(dir string) error {
	i := f.find(dir)
	if i < 0 || f.exports[i].revoked {
		return nil
	}
	f.exports[i].revoked = true
	return unmount(f.pathOf(dir))
}

func mountFiles(exports []Export) (f files, err error) {
	if f.dir, err = os.MkdirTemp("", "nfsserver-"); err != nil {
		return f, err
	}
	for dir, fsType := range map[string]string{f.nfsd(): "nfsd", f.pipes(): "rpc_pipefs", f.tree(): "tmpfs"} {
		if err := mount(fsType, dir, fsType, 0); err != nil {
			return f, err
		}
	}
	for _, e := range exports {
		if err := f.add(e); err != nil {
			return f, err
		}
	}
	return f, nil
}

func mount(source, dir, fsType string, flags uintptr) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, dir, fsType, flags, ""); err != nil {
		return fmt.Errorf("mount %s on %s: %w", source, dir, err)
	}
	return nil
}

// unmount removes all mounts. It avoids RemoveAll, which would delete through a bind mount
// that is left.
func (f files) unmount() (err error) {
	if f.dir == "" {
		return nil
	}
	for _, dir := range []string{f.tree(), f.pipes(), f.nfsd()} {
		err = errors.Join(err, unmount(dir))
	}
	return errors.Join(err, os.Remove(f.dir))
}

// unmount ignores paths that are not mounted or do not exist, as after a failed start.
func unmount(dir string) error {
	err := unix.Unmount(dir, unix.MNT_DETACH)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "unmount", Path: dir, Err: err}
	}
	if err := os.Remove(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// inGuest reports whether this kernel is User-Mode Linux, and so the test's own.
func inGuest() bool {
	info, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(info, []byte("User Mode Linux"))
}

// requireFileSystems returns an error if the kernel lacks one of the file systems.
func requireFileSystems(fsTypes ...string) error {
	text, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err
	}
	known := bytes.Fields(text)
	for _, fsType := range fsTypes {
		if !slices.ContainsFunc(known, func(k []byte) bool { return string(k) == fsType }) {
			return fmt.Errorf("the kernel has no %s", fsType)
		}
	}
	return nil
}
