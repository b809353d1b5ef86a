// Package workdir makes and removes the directories of example programs: a directory that
// a program has made holds a mark, and a program removes no other, nor a file in one.
package workdir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/util/safepath"
)

// mark is a directory in the directories that a program has made.
const mark = ".made-by-podvolumes"

// Open returns the directory without symbolic links. Open makes a directory that is
// missing, and a temporary one for "".
func Open(dir string) (string, error) {
	dir, err := makeMissing(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	return dir, err
}

func makeMissing(dir string) (string, error) {
	if dir == "" {
		dir, err := os.MkdirTemp("", "podvolumes-")
		if err != nil {
			return "", err
		}
		return dir, setMark(dir)
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, Make(dir)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return dir, err
}

// Make makes a directory with a mark, and directories in it.
func Make(dir string, subdirs ...string) error {
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		err = setMark(dir)
	}
	for _, sub := range subdirs {
		if err == nil {
			err = os.Mkdir(sub, 0o755)
		}
	}
	return err
}

// setMark marks a new directory, or removes it.
func setMark(dir string) error {
	err := os.Mkdir(filepath.Join(dir, mark), 0o755)
	if err != nil {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}

// IsMarked reports whether a program has made the directory.
func IsMarked(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, mark))
	return err == nil && info.IsDir()
}

// Made is a directory of Make, and the directories in it that the program has made.
type Made struct {
	Dir     string
	Subdirs []string // paths
}

// RemoveAll removes the directories in their order: empty Subdirs, and a Dir that is marked
// and holds no more. It leaves a directory without a mark alone.
func RemoveAll(ctx context.Context, all []Made) error {
	for _, made := range all {
		if err := made.remove(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (m Made) remove(ctx context.Context) error {
	if !IsMarked(m.Dir) {
		return nil
	}
	for _, sub := range m.Subdirs {
		if err := safepath.Rmdir(ctx, sub); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	names, err := Names(m.Dir)
	if err != nil {
		return err
	}
	if len(names) > 1 {
		return fmt.Errorf("remove %s: the directory contains files of other programs", m.Dir)
	}
	if err := safepath.Rmdir(ctx, filepath.Join(m.Dir, mark)); err != nil {
		return err
	}
	return safepath.Rmdir(ctx, m.Dir)
}

// Names returns the names in a directory, without a system call on the entries: none
// of a missing directory.
func Names(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	return names, errors.Join(err, f.Close())
}

// CheckReal returns why a path is not a directory, but a symbolic link or no path at all;
// "": it is one.
func CheckReal(path string) (reason string) {
	switch info, err := os.Lstat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return "no such directory"
	case err != nil:
		return err.Error()
	case info.Mode()&fs.ModeSymlink != 0:
		return "a symbolic link"
	case !info.IsDir():
		return "not a directory"
	}
	return ""
}
