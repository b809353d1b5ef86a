package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
)

// A store keeps records in files of a directory, one for each key. A record is replaced as a whole and
// durably: after a power failure the old or the new one is read. The caller has locked the key.
type store[T any] struct {
	root string // an existing directory
	dir  string // below root
}

const (
	recordVersion = 1
	maxRecord     = 1 << 20 // bytes
	recordSuffix  = ".json"
	newSuffix     = ".new" // of a file that is being written
)

// A storedRecord is the content of a file.
type storedRecord[T any] struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
	Record  T      `json:"record"`
}

// fileName returns a name of fixed length: a key can have any length and contain any character.
func fileName(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:16]) + recordSuffix
}

// open creates the directory durably. The names of its records are durable then, too: an earlier process may have
// been killed between the write of a record and its sync.
func (s store[T]) open() error {
	return s.within(func(root *os.Root) error {
		if err := root.MkdirAll(s.dir, 0o700); err != nil {
			return err
		}
		for dir := s.dir; dir != "."; dir = path.Dir(dir) {
			if err := syncDir(root, dir); err != nil {
				return err
			}
		}
		return syncDir(root, ".")
	})
}

// within runs work on the root of the store, and cannot leave it.
func (s store[T]) within(work func(*os.Root) error) (err error) {
	root, err := os.OpenRoot(s.root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return work(root)
}

// path returns the path of a file for errors.
func (s store[T]) path(file string) string { return filepath.Join(s.root, s.dir, file) }

// read returns the record of a key, or nil if none exists.
func (s store[T]) read(key string) (record *T, err error) {
	file := fileName(key)
	err = s.within(func(root *os.Root) error {
		stored, err := s.readFile(root, file)
		if err == nil && stored.Key != key {
			err = errOtherKey
		}
		if err == nil {
			record = &stored.Record
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read record %s: %w", s.path(file), err)
	}
	return record, nil
}

var (
	errOtherKey   = errors.New("the record is of another volume")
	errNotRegular = errors.New("not a regular file")
	errTooLarge   = fmt.Errorf("must have at most %d bytes", maxRecord)
)

// readFile reads and parses a file.
func (s store[T]) readFile(root *os.Root, file string) (stored storedRecord[T], err error) {
	name := path.Join(s.dir, file)
	info, err := root.Lstat(name) // opening a pipe would block
	switch {
	case err != nil:
		return stored, err
	case !info.Mode().IsRegular():
		return stored, errNotRegular
	case info.Size() > maxRecord:
		return stored, errTooLarge
	}
	f, err := root.Open(name)
	if err != nil {
		return stored, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	text, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return stored, err
	}
	if err := json.Unmarshal(text, &stored); err != nil {
		return stored, err
	}
	if stored.Version != recordVersion {
		return stored, fmt.Errorf("version %d: must be %d", stored.Version, recordVersion)
	}
	return stored, nil
}

// write replaces the record of a key.
func (s store[T]) write(key string, record T) error {
	text, err := json.Marshal(storedRecord[T]{recordVersion, key, record})
	if err == nil && len(text) > maxRecord {
		err = errTooLarge
	}
	if err == nil {
		err = s.within(func(root *os.Root) error { return s.replace(root, path.Join(s.dir, fileName(key)), text) })
	}
	if err != nil {
		return fmt.Errorf("write record of volume %s: %w", brief.Name(key), err)
	}
	return nil
}

func (s store[T]) replace(root *os.Root, name string, text []byte) error {
	if err := writeSynced(root, name+newSuffix, text); err != nil {
		return errors.Join(err, ignoreMissing(root.Remove(name+newSuffix)))
	}
	if err := root.Rename(name+newSuffix, name); err != nil {
		return err
	}
	return syncDir(root, s.dir)
}

// remove removes the record of a key durably. It is idempotent.
func (s store[T]) remove(key string) error {
	err := s.within(func(root *os.Root) error {
		if err := root.Remove(path.Join(s.dir, fileName(key))); err != nil {
			return err
		}
		return syncDir(root, s.dir)
	})
	if err = ignoreMissing(err); err != nil {
		return fmt.Errorf("remove record of volume %s: %w", brief.Name(key), err)
	}
	return nil
}

// all returns the records by key, and the errors of unreadable ones.
func (s store[T]) all() (records map[string]T, broken []error, err error) {
	records = map[string]T{}
	err = s.within(func(root *os.Root) error {
		names, err := s.files(root)
		for _, file := range names {
			stored, err := s.readFile(root, file)
			switch {
			case errors.Is(err, fs.ErrNotExist): // removed meanwhile
			case err == nil && fileName(stored.Key) != file:
				broken = append(broken, fmt.Errorf("read record %s: %w", s.path(file), errOtherKey))
			case err != nil:
				broken = append(broken, fmt.Errorf("read record %s: %w", s.path(file), err))
			default:
				records[stored.Key] = stored.Record
			}
		}
		return err
	})
	return records, broken, err
}

// hasBroken reports whether a record of another key than but is unreadable.
func (s store[T]) hasBroken(but string) (found bool, err error) {
	err = s.within(func(root *os.Root) error {
		names, err := s.files(root)
		for _, file := range names {
			stored, err := s.readFile(root, file)
			isBroken := err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && fileName(stored.Key) != file
			found = found || isBroken && file != fileName(but)
		}
		return err
	})
	return found, err
}

// files returns the names of the files with records.
func (s store[T]) files(root *os.Root) ([]string, error) {
	dir, err := root.Open(s.dir)
	if err != nil {
		return nil, err
	}
	names, err := dir.Readdirnames(-1)
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, recordSuffix) })
	return names, errors.Join(err, dir.Close())
}

// writeSynced creates a file. It first removes an existing one.
func writeSynced(root *os.Root, name string, text []byte) error {
	if err := ignoreMissing(root.Remove(name)); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// syncDir makes the names in a directory durable.
func syncDir(root *os.Root, name string) error {
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
