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

// A files is the directory below which a server has mounted what it needs: the
// kernel's files to control it, pipes, and the tree that clients see. The zero
// value is none.
type files struct {
	dir  string
	dirs []string // exported
}

func (f files) nfsd() string  { return filepath.Join(f.dir, "nfsd") }
func (f files) pipes() string { return filepath.Join(f.dir, "pipes") }
func (f files) tree() string  { return filepath.Join(f.dir, "tree") }

// exported are the directories in the tree, after its root.
func (f files) exported() []string {
	roots := []string{f.tree()}
	for _, dir := range f.dirs {
		roots = append(roots, filepath.Join(f.tree(), dir))
	}
	return roots
}

func mountFiles(dirs []string) (f files, err error) {
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			return f, fmt.Errorf("%q is no absolute path", dir)
		}
	}
	if f.dir, err = os.MkdirTemp("", "nfsserver-"); err != nil {
		return f, err
	}
	f.dirs = dirs
	for dir, fsType := range map[string]string{f.nfsd(): "nfsd", f.pipes(): "rpc_pipefs", f.tree(): "tmpfs"} {
		if err := mount(fsType, dir, fsType, 0); err != nil {
			return f, err
		}
	}
	for i, root := range f.exported()[1:] {
		if err := mount(dirs[i], root, "", unix.MS_BIND); err != nil {
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

// unmount takes all of it away. Not with RemoveAll: a directory that is still
// bound here is the test's.
func (f files) unmount() (err error) {
	if f.dir == "" {
		return nil
	}
	for _, dir := range []string{f.tree(), f.pipes(), f.nfsd()} {
		err = errors.Join(err, unmount(dir))
	}
	return errors.Join(err, os.Remove(f.dir))
}

// unmount passes over what was not mounted or made, as happens half-way.
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

// inGuest reports whether this kernel is a program of the machine's: then it is
// ours alone.
func inGuest() bool {
	info, err := os.ReadFile("/proc/cpuinfo")
	return err == nil && bytes.Contains(info, []byte("User Mode Linux"))
}

// knows returns an error if the kernel lacks one of the file systems.
func knows(fsTypes ...string) error {
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
