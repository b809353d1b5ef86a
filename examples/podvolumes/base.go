package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/safepath"
)

// A base is the directory of -root. Below it are the pods' directories, and the
// disks of the built-in manifest.
type base string

func (b base) pods() string  { return filepath.Join(string(b), "pods") }
func (b base) disks() string { return filepath.Join(string(b), "disks") }

// mark is a directory in those that the program has made, and removes again.
const mark = ".made-by-podvolumes"

// openBase returns the directory without symbolic links. If it is missing, or
// none is named, it is made.
func openBase(dir string) (base, error) {
	dir, err := makeBase(dir)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("-root: %w", err)
	}
	return base(dir), nil
}

func makeBase(dir string) (string, error) {
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
		return dir, makeMarked(dir)
	}
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a directory", dir)
	}
	return dir, err
}

// checkUnused refuses to mix this run's volumes with those of an earlier one.
func (b base) checkUnused() error {
	if _, err := os.Lstat(b.pods()); err == nil || isMarked(b.disks()) {
		return fmt.Errorf("-root: %s holds volumes already: take them down first, with -down -root %s",
			b, quoted(string(b)))
	}
	return nil
}

func makeMarked(dir string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return setMark(dir)
}

// setMark marks a directory that was made just now, or removes it.
func setMark(dir string) error {
	err := os.Mkdir(filepath.Join(dir, mark), 0o755)
	if err != nil {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}

func isMarked(dir string) bool {
	info, err := os.Lstat(filepath.Join(dir, mark))
	return err == nil && info.IsDir()
}

// removeMarked removes a directory that the program has made, and nothing in it
// that anybody else has put there.
func removeMarked(dir string) error {
	if !isMarked(dir) {
		return nil
	}
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	if len(names) > 1 {
		return fmt.Errorf("%s stays: it holds more than we have put there", dir)
	}
	if err := safepath.Rmdir(filepath.Join(dir, mark)); err != nil {
		return err
	}
	return safepath.Rmdir(dir)
}

// namesIn returns what is in a directory, without a look at it. A missing
// directory has nothing in it.
func namesIn(dir string) ([]string, error) {
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

// makeDisks makes the directories of the built-in manifest's local volumes.
func (b base) makeDisks() error {
	err := makeMarked(b.disks())
	for _, disk := range builtinDisks(b) {
		if err == nil {
			err = os.Mkdir(disk, 0o755)
		}
	}
	return err
}

// removeDisks removes them again, if they are ours and empty.
func (b base) removeDisks() error {
	if !isMarked(b.disks()) {
		return nil
	}
	for _, disk := range builtinDisks(b) {
		if err := safepath.Rmdir(disk); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return removeMarked(b.disks())
}

// removeMade removes the directories that the program has made.
func (b base) removeMade() error {
	if err := b.removeDisks(); err != nil {
		return err
	}
	return removeMarked(string(b))
}

// left lists what is there that should be gone: mounts and directories of pods,
// and the directories that the program has made.
func (b base) left(table []mount.Info) []string {
	var left []string
	for _, info := range table {
		if info.Mountpoint == b.pods() || strings.HasPrefix(info.Mountpoint, b.pods()+"/") {
			left = append(left, "mount "+info.Mountpoint)
		}
	}
	for _, dir := range []string{b.pods(), filepath.Join(b.disks(), mark), filepath.Join(string(b), mark)} {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			left = append(left, "directory "+strings.TrimSuffix(dir, "/"+mark))
		}
	}
	return left
}
