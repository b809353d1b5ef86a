package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A record describes the device of a volume on disk, so that another device in its place is
// recognised.
type record struct {
	// State: see the constants. An unknown one is an error.
	State string `json:"state"`
	// UID is the persistent volume's: the record of an earlier volume of the same name does
	// not count. Empty: the record of a reconstructed specification.
	UID types.UID `json:"uid,omitempty"`
	// Path is the device's, as written in the volume.
	Path string `json:"path"`
	// FSType and FSUUID are the file system's.
	FSType string `json:"fsType,omitempty"`
	FSUUID string `json:"fsUUID,omitempty"`
	// Disk is the device when the record was written.
	Disk disk.Identity `json:"disk"`
	// Readers are the pods that may only read the raw device.
	Readers []types.UID `json:"readers,omitempty"`
}

func (r *record) isReader(pod types.UID) bool { return slices.Contains(r.Readers, pod) }

func (r *record) equals(other record) bool {
	return r != nil && reflect.DeepEqual(*r, other)
}

// isOf reports whether the record is of the persistent volume of that UID, and not of
// an earlier one of the same name.
func (r *record) isOf(uid types.UID) bool { return r.UID == "" || uid == "" || r.UID == uid }

// The states of a record. Formatting is written before a device, which is blank then, is
// formatted; mounted after the format, before the first mount: in between the device holds
// no data.
const (
	stateFormatting = "formatting"
	stateMounted    = "mounted"
	stateBlock      = "block"
)

// A RecordError is the error of a record that cannot be read. The device stays untouched;
// [Plugin.Forget] removes the record.
type RecordError struct {
	File string
	Err  error
}

// Error names the file.
func (e *RecordError) Error() string {
	return fmt.Sprintf("read device record %s: %v", e.File, e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// records stores one file for each volume.
type records struct {
	files    recordstore.Dir
	changing *sync.Mutex
}

// The directory of the records, and the files that are being written, below it.
const (
	recordsDir      = "devices"
	temporaryRecord = "../devices.new/*"
)

// maxRecord is the largest size of a record in bytes.
const maxRecord = 1 << 16

func openRecords(host volume.VolumeHost) (records, error) {
	dir, err := host.PluginDir(PluginName)
	if err != nil {
		return records{}, err
	}
	rest, err := recordstore.Below(host.Root(), dir)
	if err != nil {
		return records{}, fmt.Errorf("directory of plugin %s: %w", PluginName, err)
	}
	return records{newRecordFiles(host.Root(), path.Join(rest, recordsDir), temporaryRecord), &sync.Mutex{}}, nil
}

func newRecordFiles(root, dir, temporary string) recordstore.Dir {
	return recordstore.Dir{Root: root, Path: dir, Temporary: temporary, Mode: 0o750, Limit: maxRecord}
}

func checkRecordName(name string) error {
	return volume.ValidatePathComponent(field.NewPath("volumeName"), name)
}

// read returns the record of a volume, or nil if there is none.
func (r records) read(name string) (*record, error) {
	if err := checkRecordName(name); err != nil {
		return nil, err
	}
	text, err := r.files.Read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil && !recordstore.IsUnfit(err):
		return nil, util.Transient(err) // the content is unknown
	}
	var found *record
	if err == nil {
		found, err = parseRecord(text)
	}
	if err != nil {
		return nil, &RecordError{File: path.Join(r.files.Root, r.files.Path, name), Err: err}
	}
	return found, nil
}

// parseRecord parses a record, and refuses one without the fields that its state requires.
func parseRecord(text []byte) (*record, error) {
	found := new(record)
	if err := json.Unmarshal(text, found); err != nil {
		return nil, err
	}
	switch {
	case found.State != stateFormatting && found.State != stateMounted && found.State != stateBlock:
		return nil, fmt.Errorf("state %s: unknown", input.Quote(found.State))
	case found.State != stateBlock && (found.FSType == "" || found.FSUUID == ""):
		return nil, errors.New("fsType and fsUUID must not be empty")
	case !strings.HasPrefix(found.Path, "/"):
		return nil, fmt.Errorf("path %s: must be absolute", input.Quote(found.Path))
	}
	return found, nil
}

// write replaces the record of a volume atomically.
func (r records) write(name string, rec record) error {
	if err := checkRecordName(name); err != nil {
		return err
	}
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.files.Write(name, text)
}

// remove removes the record of a volume. It is idempotent.
func (r records) remove(name string) error {
	if err := checkRecordName(name); err != nil {
		return err
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.files.Remove(name)
}

// disown removes the records of other volumes' unfinished formats of a disk that the volume
// is about to use: from now on its content is not theirs to wipe.
func (r records) disown(volumeName string, device disk.Identity) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	var failed error
	err := r.files.Each(func(name string, text []byte, err error) {
		switch {
		case name == volumeName, failed != nil, recordstore.IsUnfit(err): // an unfit record permits no wipe
			return
		case err != nil: // the content is unknown
			failed = err
			return
		}
		if rec, err := parseRecord(text); err == nil && rec.State == stateFormatting && rec.Disk.MayOverlap(device) {
			failed = r.files.Remove(name)
		}
	})
	return errors.Join(recordstore.IgnoreMissing(err), failed)
}
