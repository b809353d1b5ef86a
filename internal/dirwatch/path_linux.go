package dirwatch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// watchDir watches the directories on the path first, so that no change of the path is
// missed. In the parent it watches removals only: a directory reports its own removal only
// when no process has it open any more.
func (w *watcher) watchDir(dir string) error {
	at, err := walk(dir, w.addStep)
	if err != nil {
		return err
	}
	if err := w.addParent(at); err != nil {
		return err
	}
	_, err = unix.InotifyAddWatch(w.fd, at, changeEvents|moveEvents|unix.IN_ONLYDIR|unix.IN_MASK_ADD)
	return err
}

func (w *watcher) addParent(at string) (err error) {
	w.name, w.parent = filepath.Base(at), -1
	if at == "/" {
		return nil
	}
	w.parent, err = unix.InotifyAddWatch(w.fd, filepath.Dir(at), unix.IN_DELETE|unix.IN_MASK_ADD)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// addStep watches a directory or link on the path itself, and not the entries of the
// directory. The replacement of a link changes its number of links. Unreadable directories
// cannot be watched and are skipped.
func (w *watcher) addStep(path string) error {
	mask := uint32(moveEvents | unix.IN_DONT_FOLLOW | unix.IN_MASK_ADD)
	if _, err := os.Readlink(path); err == nil {
		mask |= unix.IN_ATTRIB
	}
	_, err := unix.InotifyAddWatch(w.fd, path, mask)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// maxLinks is the kernel's limit of symbolic links in a path.
const maxLinks = 40

// walk calls step for each directory and link on the path dir, from the top, before it
// continues from there. It returns the path without links.
func walk(dir string, step func(path string) error) (at string, err error) {
	at = "/"
	links := 0
	for rest := components(dir); len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		if name == ".." {
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, name)
		if err := step(next); err != nil {
			return "", err
		}
		to, err := os.Readlink(next)
		if err != nil { // not a link, or gone, which the next step finds
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fmt.Errorf("%s: %w", dir, unix.ELOOP)
		}
		if filepath.IsAbs(to) {
			at = "/"
		}
		rest = append(components(to), rest...)
	}
	return at, nil
}

// components returns the components of a path.
func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
