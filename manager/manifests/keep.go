package manifests

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// keep is the directory with what files held when they were last in order. An empty one
// keeps nothing.
type keep string

func (k keep) read(name string) ([]byte, error) {
	if k == "" {
		return nil, fs.ErrNotExist
	}
	text, _, err := readFile(filepath.Join(string(k), name))
	return text, err
}

// write replaces the file in one step. It is not synced: what a power failure takes is
// read again.
func (k keep) write(name string, text []byte) error {
	if k == "" {
		return nil
	}
	if err := os.MkdirAll(string(k), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(string(k), ".new-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(string(k), name))
	}
	if err != nil {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// prune removes what is of none of the files.
func (k keep) prune(files map[string]file) error {
	if k == "" {
		return nil
	}
	entries, err := os.ReadDir(string(k))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, entry := range entries {
		if _, ok := files[entry.Name()]; !ok && entry.Type().IsRegular() {
			err = errors.Join(err, os.Remove(filepath.Join(string(k), entry.Name())))
		}
	}
	return err
}
