package docker

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/volumekit/volumekit/internal/recordstore"
)

// A store keeps the records and the usages in files, and in memory: reads wait for no disk. One caller at a time writes
// those of a name.
type store struct {
	volumes  recordstore.Dir // durable
	uses     recordstore.Dir // since the start of the system
	identity string          // a random name of the directory with both

	mu      sync.Mutex // guards the rest
	records map[string]record
	usages  map[string]usage
	broken  map[string]error  // unreadable files, by name of the volume
	stale   map[string]bool   // usages whose files are older
	failure map[string]string // the error of the last call for a volume
}

const (
	recordVersion = 1
	recordSuffix  = ".json"
	maxRecord     = 4 << 20 // bytes
)

// openStore reads the records in a directory below root. It removes the usages of earlier starts of the system.
func openStore(root, dir, boot string) (*store, error) {
	files := recordstore.Dir{Root: root, Temporary: "*.new", Suffix: recordSuffix, Mode: 0o700, Limit: maxRecord, MustExist: true}
	s := &store{
		volumes: files, uses: files,
		records: map[string]record{}, usages: map[string]usage{}, broken: map[string]error{}, stale: map[string]bool{}, failure: map[string]string{},
	}
	s.volumes.Path = dir + "/volumes"
	s.uses.Path, s.uses.Volatile = path.Join(dir, "uses", "boot-"+boot), true
	for _, d := range []recordstore.Dir{s.volumes, s.uses} {
		if err := d.Create(); err != nil {
			return nil, err
		}
	}
	own := files
	own.Path, own.Suffix = dir, ""
	var err error
	if s.identity, err = identify(own); err != nil {
		return nil, err
	}
	removeEarlierUsages(s.uses)
	err = read(s, s.volumes, s.records)
	return s, errors.Join(err, read(s, s.uses, s.usages))
}

const identityFile = "identity"

// identify returns the random name of a directory, which it gets at the first call.
func identify(d recordstore.Dir) (string, error) {
	text, err := d.Read(identityFile)
	if !errors.Is(err, fs.ErrNotExist) {
		return string(text), err
	}
	identity := rand.Text()
	return identity, d.Write(identityFile, []byte(identity))
}

// read reads the files of a directory.
func read[T interface {
	name() string
	check() error
}](s *store, d recordstore.Dir, into map[string]T) error {
	return d.Each(func(file string, text []byte, err error) {
		name := strings.TrimSuffix(file, recordSuffix)
		rec, err := parse[T](name, text, err)
		if err != nil {
			s.broken[name] = fmt.Errorf("unreadable file %s: %w", filepath.Join(d.Root, d.Path, file), err)
			return
		}
		into[name] = rec
	})
}

// removeEarlierUsages removes all beside the directory of this start of the system, where that is possible: it is not read
// any more.
func removeEarlierUsages(d recordstore.Dir) {
	parent, own := path.Split(d.Path)
	_ = recordstore.Within(d.Root, func(root *os.Root) error {
		entries, err := fs.ReadDir(root.FS(), path.Clean(parent))
		for _, entry := range entries {
			if entry.Name() != own {
				_ = root.RemoveAll(parent + entry.Name())
			}
		}
		return err
	})
}

// get returns a record, and the usage of the volume. The error is of an unreadable one.
func (s *store) get(name string) (rec record, use usage, ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec, ok = s.records[name]
	return rec, s.usageOf(name), ok, s.broken[name]
}

// usageOf returns the usage of a volume. The caller holds mu.
func (s *store) usageOf(name string) usage {
	use := s.usages[name]
	use.Name = name
	return use
}

// A known is a record, and the usage of the volume.
type known struct {
	record
	usage usage
}

// all returns the records in the order of their names.
func (s *store) all() (all []known) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(s.records)) {
		all = append(all, known{s.records[name], s.usageOf(name)})
	}
	return all
}

// unreadable returns the errors of unreadable files.
func (s *store) unreadable() []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.broken))
}

// write replaces a record durably.
func (s *store) write(rec record) error {
	rec.Version = recordVersion
	if err := writeFile(s.volumes, rec.Name, rec); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records[rec.Name] = rec
	return nil
}

// writeUsage replaces the usage of a volume, or removes an empty one.
func (s *store) writeUsage(use usage) error {
	use.Version = recordVersion
	var err error
	if use.isEmpty() {
		err = s.uses.Remove(use.Name + recordSuffix)
	} else {
		err = writeFile(s.uses, use.Name, use)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stale, use.Name)
	if use.isEmpty() {
		delete(s.usages, use.Name)
		return nil
	}
	s.usages[use.Name] = use
	return nil
}

func writeFile(d recordstore.Dir, name string, content any) error {
	text, err := json.Marshal(content)
	if err == nil {
		err = d.Write(name+recordSuffix, text)
	}
	if err != nil {
		return fmt.Errorf("write the record: %w", err)
	}
	return nil
}

// setUsageInMemory replaces the usage of a volume after a write that has failed. Its file is stale until the next write.
func (s *store) setUsageInMemory(use usage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.usages[use.Name], s.stale[use.Name] = use, true
}

func (s *store) isStale(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stale[name]
}

// remove removes a record durably.
func (s *store) remove(name string) error {
	if err := s.volumes.Remove(name + recordSuffix); err != nil {
		return fmt.Errorf("remove the record: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.records, name)
	delete(s.failure, name)
	return nil
}

// note keeps the error of the last call for a volume, for its status. Empty: it has succeeded.
func (s *store) note(name, failure string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.records[name]; !ok || failure == "" {
		delete(s.failure, name)
		return
	}
	s.failure[name] = failure
}

func (s *store) failureOf(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure[name]
}
