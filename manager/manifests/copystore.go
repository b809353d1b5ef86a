package manifests

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/recordstore"
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
	return k.filesBelow(string(k)).Read(name + copySuffix)
}

// filesBelow returns the directory of the copies, below an existing directory.
func (k copyStore) filesBelow(root string) recordstore.Dir {
	rest, err := filepath.Rel(root, string(k))
	if err != nil {
		rest = "." // impossible: root is the directory or one of its parents
	}
	return recordstore.Dir{Root: root, Path: filepath.ToSlash(rest), Temporary: ".new-1" + copySuffix, Mode: 0o700, Limit: maxFile}
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
	root := string(k)
	for parent := filepath.Dir(root); parent != root && isMissing(root); parent = filepath.Dir(root) {
		root = parent
	}
	return k.filesBelow(root).Write(name+copySuffix, text)
}

func isMissing(name string) bool {
	_, err := os.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
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
