package manifests

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// add watches the way to the directory first, so that no change of it is missed. In the
// parent only removals are watched: of its own a directory is told only when nobody works
// in it any more.
func (w *watcher) add(dir string) error {
	at, err := walk(dir, w.addStep)
	if err != nil {
		return err
	}
	if err := w.addParent(at); err != nil {
		return err
	}
	_, err = unix.InotifyAddWatch(w.fd, at, inside|itself|unix.IN_ONLYDIR|unix.IN_MASK_ADD)
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

// addStep watches a directory or link on the way itself, and not what others do in it. A
// link that is replaced changes its number of links. What may not be read cannot be
// watched.
func (w *watcher) addStep(path string) error {
	mask := uint32(itself | unix.IN_DONT_FOLLOW | unix.IN_MASK_ADD)
	if _, err := os.Readlink(path); err == nil {
		mask |= unix.IN_ATTRIB
	}
	_, err := unix.InotifyAddWatch(w.fd, path, mask)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	return err
}

// maxLinks is how many symbolic links the kernel follows.
const maxLinks = 40

// walk calls step for each directory and link on the way to dir, from the top, before it
// goes on from there. It returns where the links lead to.
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
		if err != nil { // no link, or gone, which the next step finds
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

// components returns the names that a path consists of.
func components(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}
