package manifests

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keep is the directory with what files held when they were last in order. An empty one
// keeps nothing.
type keep string

// kept is how the names of our own files end: no other is written, or removed.
const kept = ".kept"

func (k keep) read(name string) ([]byte, error) {
	if k == "" {
		return nil, fs.ErrNotExist
	}
	text, _, err := readFile(k.path(name))
	return text, err
}

func (k keep) path(name string) string { return filepath.Join(string(k), name+kept) }

// write replaces the file in one step: whoever reads it finds the old one or the new
// one, also after a power failure. One that is as it should be is left alone.
func (k keep) write(name string, text []byte) error {
	if k == "" {
		return nil
	}
	if kept, err := k.read(name); err == nil && bytes.Equal(kept, text) {
		return nil
	}
	if err := k.make(); err != nil {
		return err
	}
	if err := k.rename(name, text); err != nil {
		return err
	}
	return syncDir(string(k))
}

// make makes the directory, and sees that it stays.
func (k keep) make() error {
	if _, err := os.Stat(string(k)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(string(k), 0o700); err != nil {
		return err
	}
	return syncDir(filepath.Dir(string(k)))
}

func (k keep) rename(name string, text []byte) error {
	f, err := os.CreateTemp(string(k), ".new-*"+kept)
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

// prune removes what was kept of other files, and what was never finished.
func (k keep) prune(files map[string]file) error {
	if k == "" {
		return nil
	}
	entries, err := os.ReadDir(string(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		name, ours := strings.CutSuffix(entry.Name(), kept)
		if _, ok := files[name]; !ok && ours && entry.Type().IsRegular() {
			err = errors.Join(err, os.Remove(k.path(name)))
		}
	}
	return err
}
