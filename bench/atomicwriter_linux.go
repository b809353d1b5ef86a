package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// An atomicWriter updates a directory in the steps of the kubelet's AtomicWriter, as the
// documentation of Kubernetes describes them: it reads all files, and if one differs writes
// all of them to a new directory, sets the modes, renames a symbolic link, and removes the
// old directory. It syncs nothing.
type atomicWriter struct{ dir string }

const dataLink = "..data"

// write updates the directory.
func (w atomicWriter) write(files map[string][]byte) error {
	old, err := os.Readlink(filepath.Join(w.dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	stale, err := w.stale(old, files)
	if err != nil {
		return err
	}
	if old != "" && len(stale) == 0 && w.same(old, files) {
		return nil
	}
	if err := w.replace(files); err != nil {
		return err
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(w.dir, name)); err != nil {
			return err
		}
	}
	if old == "" {
		return nil
	}
	return os.RemoveAll(filepath.Join(w.dir, old))
}

// stale returns the names in the old directory that are not in files.
func (w atomicWriter) stale(old string, files map[string][]byte) (names []string, err error) {
	if old == "" {
		return nil, nil
	}
	root := filepath.Join(w.dir, old)
	err = filepath.Walk(root, func(path string, _ fs.FileInfo, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		if _, wanted := files[name]; err == nil && name != "" && !wanted {
			names = append(names, name)
		}
		return err
	})
	return names, err
}

const fileMode, dirMode = 0o644, 0o755

func (w atomicWriter) same(old string, files map[string][]byte) bool {
	for name, data := range files {
		path := filepath.Join(w.dir, old, name)
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != fileMode {
			return false
		}
		if has, err := os.ReadFile(path); err != nil || !bytes.Equal(has, data) {
			return false
		}
	}
	return true
}

func (w atomicWriter) replace(files map[string][]byte) error {
	set, err := os.MkdirTemp(w.dir, "..2026_01_01_00_00_00.")
	if err != nil {
		return err
	}
	if err := os.Chmod(set, dirMode); err != nil {
		return err
	}
	for name, data := range files {
		if err := w.writeFile(filepath.Join(set, name), data); err != nil {
			return err
		}
	}
	link := filepath.Join(w.dir, dataLink)
	if err := os.Symlink(filepath.Base(set), link+"_tmp"); err != nil {
		return err
	}
	if err := os.Rename(link+"_tmp", link); err != nil {
		return err
	}
	return w.link(files)
}

func (w atomicWriter) writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), dirMode); err != nil {
		return err
	}
	if err := os.WriteFile(path, data, fileMode); err != nil {
		return err
	}
	return os.Chmod(path, fileMode) // the umask may have cleared bits
}

// link creates the links that containers see.
func (w atomicWriter) link(files map[string][]byte) error {
	for name := range files {
		path := filepath.Join(w.dir, name)
		if _, err := os.Readlink(path); err == nil {
			continue
		}
		if err := os.Symlink(filepath.Join(dataLink, name), path); err != nil {
			return err
		}
	}
	return nil
}

// visible returns a set as a container sees it: names, links, modes and content.
func visible(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	seen := ""
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Stat(path)
		if err != nil {
			return "", err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		target, err := os.Readlink(path)
		if err != nil {
			return "", err
		}
		seen += fmt.Sprintln(e.Name(), target, info.Mode(), data)
	}
	return seen, nil
}
