package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/recordstore"
)

// A store keeps records in files of a directory, one for each key. A record is replaced as a whole and
// durably: after a power failure the old or the new one is read. The caller has locked the key.
type store[T any] struct{ files recordstore.Dir }

func newStore[T any](root, dir string) store[T] {
	return store[T]{recordstore.Dir{
		Root: root, Path: dir, Temporary: "*" + newSuffix, Suffix: recordSuffix, Mode: 0o700, Limit: maxRecord, MustExist: true,
	}}
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

// open creates the directory durably, and makes the names of its records durable.
func (s store[T]) open() error { return s.files.Create() }

var errOtherKey = errors.New("the record is of another volume")

// read returns the record of a key, or nil if none exists.
func (s store[T]) read(key string) (record *T, err error) {
	file := fileName(key)
	text, err := s.files.Read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	stored, err := s.parse(file, text, err)
	if err == nil && stored.Key != key {
		err = s.readError(file, errOtherKey)
	}
	if err != nil {
		return nil, err
	}
	return &stored.Record, nil
}

// parse parses the content of a file, unless the file could not be read.
func (s store[T]) parse(file string, text []byte, err error) (stored storedRecord[T], _ error) {
	if err == nil {
		err = json.Unmarshal(text, &stored)
	}
	if err == nil && stored.Version != recordVersion {
		err = fmt.Errorf("version %d: must be %d", stored.Version, recordVersion)
	}
	if err == nil && fileName(stored.Key) != file {
		err = errOtherKey
	}
	if err != nil {
		return stored, s.readError(file, err)
	}
	return stored, nil
}

func (s store[T]) readError(file string, err error) error {
	return fmt.Errorf("read record %s: %w", filepath.Join(s.files.Root, s.files.Path, file), err)
}

// write replaces the record of a key.
func (s store[T]) write(key string, record T) error {
	text, err := json.Marshal(storedRecord[T]{recordVersion, key, record})
	if err == nil {
		err = s.files.Write(fileName(key), text)
	}
	if err != nil {
		return fmt.Errorf("write record of volume %s: %w", brief.Name(key), err)
	}
	return nil
}

// remove removes the record of a key durably. It is idempotent.
func (s store[T]) remove(key string) error {
	if err := s.files.Remove(fileName(key)); err != nil {
		return fmt.Errorf("remove record of volume %s: %w", brief.Name(key), err)
	}
	return nil
}

// all returns the records by key, and the errors of unreadable ones.
func (s store[T]) all() (records map[string]T, broken []error, err error) {
	records = map[string]T{}
	err = s.files.Each(func(file string, text []byte, err error) {
		stored, err := s.parse(file, text, err)
		if err != nil {
			broken = append(broken, err)
			return
		}
		records[stored.Key] = stored.Record
	})
	return records, broken, err
}

// hasBroken reports whether a record of another key than but is unreadable.
func (s store[T]) hasBroken(but string) (found bool, err error) {
	err = s.files.Each(func(file string, text []byte, err error) {
		_, err = s.parse(file, text, err)
		found = found || err != nil && file != fileName(but)
	})
	return found, err
}
