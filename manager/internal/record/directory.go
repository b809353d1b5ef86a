package record

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// Directory is the directory of the records.
type Directory struct{ root, Path string }

// managerName is the plugin name of the directory with the records.
const managerName = "volumekit.io/manager"

// NewDirectory returns the directory of the records on a host.
func NewDirectory(host volume.VolumeHost) (Directory, error) {
	dir, err := host.PluginDir(managerName)
	return Directory{host.Root(), filepath.Join(dir, "volumes")}, err
}

// Write replaces the record of the volume atomically, also across a power failure.
func (r Directory) Write(rec Record) error {
	text, err := json.Marshal(rec)
	if err == nil && len(text) > maxRecord {
		err = errLargeRecord
	}
	if err == nil {
		_, err = safepath.MkdirAll(context.Background(), r.root, r.Path, 0o700)
	}
	if err != nil {
		return fmt.Errorf("write record of volume %q: %w", brief.Name(string(rec.Volume)), err)
	}
	root, err := os.OpenRoot(r.Path)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	name := FileName(rec.Volume)
	if err := writeSynced(root, name+".tmp", text); err != nil {
		return errors.Join(err, IgnoreMissing(root.Remove(name+".tmp")))
	}
	if err := root.Rename(name+".tmp", name); err != nil {
		return err
	}
	return syncDir(root)
}

// Remove removes the record of the volume; a missing record is no error.
func (r Directory) Remove(name v1.UniqueVolumeName) error {
	return IgnoreMissing(os.Remove(filepath.Join(r.Path, FileName(name))))
}

// Read returns all records, and the unreadable files by name, with errors that contain their
// paths. Unreadable files stay in place.
func (r Directory) Read() (all []Record, broken map[string]Broken) {
	broken = map[string]Broken{}
	entries, err := os.ReadDir(r.Path)
	if err = IgnoreMissing(err); err != nil {
		broken[""] = Broken{Err: err}
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".json") {
			continue // a temporary one, of a run that was killed: it is overwritten
		}
		rec, err := r.readOne(entry.Name())
		if err != nil {
			err = fmt.Errorf("read record %s: %w", filepath.Join(r.Path, entry.Name()), err)
			broken[entry.Name()] = NewBroken(entry.Name(), rec, err)
			continue
		}
		all = append(all, rec)
	}
	return all, broken
}

// readOne reads the record in a file.
func (r Directory) readOne(name string) (Record, error) {
	text, err := readRegular(filepath.Join(r.Path, name))
	if err != nil {
		return Record{}, err
	}
	return Parse(name, text)
}
