package record

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// Directory is the directory of the records.
type Directory struct {
	files recordstore.Dir
	Path  string
}

const (
	// managerName is the plugin name of the directory with the records.
	managerName = "volumekit.io/manager"
	// maxRecord is the largest size of a record in bytes.
	maxRecord = 16 << 20
	suffix    = ".json"
)

// NewDirectory returns the directory of the records on a host.
func NewDirectory(host volume.VolumeHost) (Directory, error) {
	dir, err := host.PluginDir(managerName)
	if err != nil {
		return Directory{}, err
	}
	dir = filepath.Join(dir, "volumes")
	rest, err := recordstore.Below(host.Root(), dir)
	if err != nil {
		return Directory{}, fmt.Errorf("directory of the records: %w", err)
	}
	files := recordstore.Dir{Root: host.Root(), Path: rest, Temporary: "*.tmp", Suffix: suffix, Mode: 0o700, Limit: maxRecord}
	return Directory{files, dir}, nil
}

// FileName returns a file name of fixed length: a volume's name may have any length and
// contain any character.
func FileName(name v1.UniqueVolumeName) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16]) + suffix
}

// Write replaces the record of the volume atomically, also across a power failure.
func (r Directory) Write(rec Record) error {
	text, err := json.Marshal(rec)
	if err == nil {
		err = r.files.Write(FileName(rec.Volume), text)
	}
	if err != nil {
		return fmt.Errorf("write record of volume %q: %w", brief.Name(string(rec.Volume)), err)
	}
	return nil
}

// Remove removes the record of the volume durably; a missing record is no error.
func (r Directory) Remove(name v1.UniqueVolumeName) error { return r.files.Remove(FileName(name)) }

// Read returns all records, and the unreadable files by name, with errors that contain their
// paths. Unreadable files stay in place.
func (r Directory) Read() (all []Record, broken map[string]Broken) {
	broken = map[string]Broken{}
	err := r.files.Each(func(name string, text []byte, err error) {
		var rec Record
		if err == nil {
			rec, err = Parse(name, text)
		}
		if err != nil {
			err = fmt.Errorf("read record %s: %w", filepath.Join(r.Path, name), err)
			broken[name] = NewBroken(name, rec, err)
			return
		}
		all = append(all, rec)
	})
	if err = recordstore.IgnoreMissing(err); err != nil {
		broken[""] = Broken{Err: err}
	}
	return all, broken
}
