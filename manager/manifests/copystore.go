package manifests

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// copyStore is the directory with the last valid content of files. An empty copyStore stores
// nothing.
type copyStore string

// copySuffix is the suffix of the copies' names: files of other names are never written or removed.
const copySuffix = ".kept"

func (k copyStore) read(name string) ([]byte, error) {
	if k == "" {
		return nil, fs.ErrNotExist
	}
	text, _, err := readFile(k.path(name))
	return text, err
}

func (k copyStore) path(name string) string { return filepath.Join(string(k), name+copySuffix) }

// write replaces the copy atomically: readers find the old one or the new one, also after a
// loss of power. It does not rewrite an equal copy.
func (k copyStore) write(name string, text []byte) error {
	if k == "" {
		return nil
	}
	if kept, err := k.read(name); err == nil && bytes.Equal(kept, text) {
		return nil
	}
	if err := k.createDir(); err != nil {
		return err
	}
	if err := k.writeRenamed(name, text); err != nil {
		return err
	}
	return syncDir(string(k))
}

// createDir creates the directory durably.
func (k copyStore) createDir() error {
	if _, err := os.Stat(string(k)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(string(k), 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(string(k)))
}

// writeRenamed writes and syncs a temporary file and renames it to the name, so that a crash leaves no
// incomplete file of that name.
func (k copyStore) writeRenamed(name string, text []byte) error {
	f, err := os.CreateTemp(string(k), ".new-*"+copySuffix)
	if err != nil {
		return err
	}
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), k.path(name))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

func syncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// removeStale removes the copies of other files, and unfinished ones.
func (k copyStore) removeStale(files map[string]file) error {
	if k == "" {
		return nil
	}
	entries, err := os.ReadDir(string(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		name, ours := strings.CutSuffix(entry.Name(), copySuffix)
		if _, ok := files[name]; !ok && ours && entry.Type().IsRegular() {
			err = errors.Join(err, os.Remove(k.path(name)))
		}
	}
	return err
}
