package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/input"
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
	root, dir string
	changing  *sync.Mutex
}

// The directories of the records, and of records that are being written.
const (
	recordsDir    = "devices"
	newRecordsDir = "devices.new"
)

func newRecords(host volume.VolumeHost) (records, error) {
	dir, err := host.PluginDir(PluginName)
	if err != nil {
		return records{}, err
	}
	rest, ok := below(host.Root(), dir)
	if !ok {
		return records{}, fmt.Errorf("directory of plugin %s: %s is not below %s", PluginName, dir, host.Root())
	}
	return records{root: host.Root(), dir: rest, changing: &sync.Mutex{}}, nil
}

func (r records) file(name string) string { return path.Join(r.dir, recordsDir, name) }

// withRoot runs work on the host's directory tree, and cannot leave it.
func (r records) withRoot(work func(*os.Root) error) (err error) {
	root, err := os.OpenRoot(r.root)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	return work(root)
}

func checkRecordName(name string) error {
	return volume.ValidatePathComponent(field.NewPath("volumeName"), name)
}

// read returns the record of a volume, or nil if there is none.
func (r records) read(name string) (*record, error) {
	if err := checkRecordName(name); err != nil {
		return nil, err
	}
	var text []byte
	err := r.withRoot(func(root *os.Root) error {
		f, err := root.Open(r.file(name))
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		const most = 1 << 16
		text, err = io.ReadAll(io.LimitReader(f, most))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, util.Transient(err) // the content is unknown
	}
	found, err := parseRecord(text)
	if err != nil {
		return nil, &RecordError{File: path.Join(r.root, r.file(name)), Err: err}
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
	return r.withRoot(func(root *os.Root) error {
		return replaceFile(root, path.Join(r.dir, newRecordsDir, name), r.file(name), text)
	})
}

// replaceFile replaces a file atomically and durably, by way of an unfinished one.
func replaceFile(root *os.Root, unfinished, file string, text []byte) error {
	for _, name := range []string{unfinished, file} {
		if err := makeDir(root, path.Dir(name)); err != nil {
			return err
		}
	}
	if err := writeSynced(root, unfinished, text); err != nil {
		return err
	}
	if err := root.Rename(unfinished, file); err != nil {
		return err
	}
	return syncDir(root, path.Dir(file))
}

// makeDir creates a directory and its parents, and syncs each new one, so that it survives a
// crash of the machine.
func makeDir(root *os.Root, name string) error {
	err := root.Mkdir(name, 0o750)
	if errors.Is(err, fs.ErrNotExist) && name != "." {
		if err := makeDir(root, path.Dir(name)); err != nil {
			return err
		}
		err = root.Mkdir(name, 0o750)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(root, path.Dir(name))
}

func writeSynced(root *os.Root, name string, text []byte) (err error) {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Write(text); err != nil {
		return err
	}
	return f.Sync()
}

func syncDir(root *os.Root, name string) error {
	dir, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// remove removes the record of a volume. It is idempotent.
func (r records) remove(name string) error {
	if err := checkRecordName(name); err != nil {
		return err
	}
	r.changing.Lock()
	defer r.changing.Unlock()
	return r.removeLocked(name)
}

func (r records) removeLocked(name string) error {
	return r.withRoot(func(root *os.Root) error {
		for _, file := range []string{path.Join(r.dir, newRecordsDir, name), r.file(name)} {
			if err := root.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}

// names returns the volumes that have records.
func (r records) names() (names []string, err error) {
	err = r.withRoot(func(root *os.Root) error {
		dir, err := root.Open(r.file("."))
		if err != nil {
			return err
		}
		defer func() { _ = dir.Close() }()
		names, err = dir.Readdirnames(-1)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// disown removes the records of other volumes' unfinished formats of a disk that the volume
// is about to use: from now on its content is not theirs to wipe.
func (r records) disown(volumeName string, device disk.Identity) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	names, err := r.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		rec, err := r.read(name)
		if name == volumeName || err != nil || rec == nil { // an unreadable record permits no wipe
			continue
		}
		if rec.State != stateFormatting || !rec.Disk.MayOverlap(device) {
			continue
		}
		if err := r.removeLocked(name); err != nil {
			return err
		}
	}
	return nil
}
