package manager

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A record is what is written down of a volume that is attached, or mounted once for
// all pods: of others what is on disk and in the mount table is enough. It is written
// before the volume may be there, and removed when it is known not to be, so it may
// tell of what is not there, but is never missing for what is.
type record struct {
	Version int                 `json:"version"`
	Volume  v1.UniqueVolumeName `json:"volume"`
	Plugin  string              `json:"plugin"`
	Name    string              `json:"name"` // as the plugin calls it
	Spec    specRecord          `json:"spec"`

	Attachable      bool `json:"attachable,omitempty"`
	DeviceMountable bool `json:"deviceMountable,omitempty"`
	Block           bool `json:"block,omitempty"`

	DevicePath      string             `json:"devicePath,omitempty"`
	DeviceMountPath string             `json:"deviceMountPath,omitempty"`
	Size            *resource.Quantity `json:"size,omitempty"`
	Pods            []podRecord        `json:"pods,omitempty"`
	For             *podRecord         `json:"for,omitempty"` // one that it was mapped for
}

type specRecord struct {
	Volume           *v1.Volume           `json:"volume,omitempty"`
	PersistentVolume *v1.PersistentVolume `json:"persistentVolume,omitempty"`
	ReadOnly         bool                 `json:"readOnly,omitempty"`
}

type podRecord struct {
	UID  types.UID `json:"uid"`
	Name string    `json:"name"` // of the volume's directory
}

// check refuses names that are no names of directories.
func (p podRecord) check(name string) error {
	at := field.NewPath(name)
	if err := volume.ValidatePathComponent(at.Child("uid"), string(p.UID)); err != nil {
		return err
	}
	return volume.ValidatePathComponent(at.Child("name"), p.Name)
}

const recordVersion = 1

// managerName is whose the directory with the records is, as if it were a plugin.
const managerName = "volumekit.io/manager"

// records is the directory of the records.
type records struct{ root, dir string }

func newRecords(host volume.VolumeHost) (records, error) {
	dir, err := host.PluginDir(managerName)
	return records{host.Root(), filepath.Join(dir, "volumes")}, err
}

// A volume's name may hold anything, and be of any length.
func fileOf(name v1.UniqueVolumeName) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16]) + ".json"
}

// write replaces the record of the volume, in one step: whoever reads it finds the old
// one or the new one, also after a power failure.
func (r records) write(rec record) error {
	text, err := json.Marshal(rec)
	if err == nil && len(text) > maxRecord {
		err = errLargeRecord
	}
	if err == nil {
		_, err = safepath.MkdirAll(r.root, r.dir, 0o700)
	}
	if err != nil {
		return fmt.Errorf("record of volume %q: %w", rec.Volume, err)
	}
	root, err := os.OpenRoot(r.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	name := fileOf(rec.Volume)
	if err := writeSynced(root, name+".tmp", text); err != nil {
		return errors.Join(err, ignoreMissing(root.Remove(name+".tmp")))
	}
	if err := root.Rename(name+".tmp", name); err != nil {
		return err
	}
	return syncDir(root)
}

// writeSynced writes a file anew: what is there may be a pipe, or whatever.
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

func syncDir(root *os.Root) error {
	d, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// remove removes the record of the volume. One that is missing is no error.
func (r records) remove(name v1.UniqueVolumeName) error {
	return ignoreMissing(os.Remove(filepath.Join(r.dir, fileOf(name))))
}

// A brokenRecord is a file that is not understood, or not believed.
type brokenRecord struct {
	volume     v1.UniqueVolumeName // that it tells of; empty: not known
	attachable bool
	plugin     string // if the volume may be there as it says; empty: not known
	err        error
}

func newBroken(file string, rec record, err error) brokenRecord {
	if fileOf(rec.Volume) != file {
		return brokenRecord{err: err}
	}
	return brokenRecord{volume: rec.Volume, attachable: rec.Attachable, err: err}
}

// read returns all records, and by their names the files that cannot be read, with errors
// that say where they are. Those stay there.
func (r records) read() (all []record, broken map[string]brokenRecord) {
	broken = map[string]brokenRecord{}
	entries, err := os.ReadDir(r.dir)
	if err = ignoreMissing(err); err != nil {
		broken[""] = brokenRecord{err: err}
	}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".json") {
			continue // a temporary one, of a run that was killed: it is overwritten
		}
		rec, err := r.readOne(entry.Name())
		if err != nil {
			err = fmt.Errorf("record %s: %w", filepath.Join(r.dir, entry.Name()), err)
			broken[entry.Name()] = newBroken(entry.Name(), rec, err)
			continue
		}
		all = append(all, rec)
	}
	return all, broken
}

func (r records) readOne(name string) (record, error) {
	text, err := readRegular(filepath.Join(r.dir, name))
	if err != nil {
		return record{}, err
	}
	return parseRecord(name, text)
}

// maxRecord is how large a record may be, in bytes.
const maxRecord = 16 << 20

var (
	errLargeRecord = fmt.Errorf("a record has at most %d bytes", maxRecord)
	errNotRegular  = errors.New("not a regular file")
)

// readRegular reads a file that is one, and no larger than a record. It waits for nobody.
func readRegular(path string) (text []byte, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|openRegular, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular
	case info.Size() > maxRecord:
		return nil, errLargeRecord
	}
	return io.ReadAll(io.LimitReader(f, maxRecord))
}

// parseRecord reads what is in the file of that name.
func parseRecord(name string, text []byte) (record, error) {
	var rec record
	if err := json.Unmarshal(text, &rec); err != nil {
		return record{}, err
	}
	return rec, rec.check(name)
}

// check refuses what was not written by write.
func (rec record) check(file string) error {
	switch {
	case rec.Version != recordVersion:
		return fmt.Errorf("version %d is not known", rec.Version)
	case fileOf(rec.Volume) != file:
		return fmt.Errorf("it is the record of another volume, %q", short(string(rec.Volume)))
	}
	for _, pod := range rec.Pods {
		if err := pod.check("pods"); err != nil {
			return err
		}
	}
	if rec.For != nil {
		if err := rec.For.check("for"); err != nil {
			return err
		}
	}
	if err := quantity.CheckOf("the size", rec.Size); err != nil { // before anything compares it
		return err
	}
	return rec.spec().Validate()
}

func (rec record) spec() *volume.Spec {
	return &volume.Spec{Volume: rec.Spec.Volume, PersistentVolume: rec.Spec.PersistentVolume, ReadOnly: rec.Spec.ReadOnly}
}

// volume returns what may be there.
func (rec record) volume() *actualVolume {
	v := &actualVolume{
		plugin: rec.Plugin, name: rec.Name, spec: rec.spec(),
		traits:     traits{attachable: rec.Attachable, deviceMountable: rec.DeviceMountable, block: rec.Block},
		devicePath: rec.DevicePath, deviceMountPath: rec.DeviceMountPath, size: rec.Size,
	}
	v.assume()
	if rec.For != nil {
		v.lastPod = podKey{rec.For.UID, rec.For.Name}
	}
	for _, pod := range rec.Pods {
		v.lastPod = podKey{pod.UID, pod.Name}
		v.pods.set(v.lastPod, &actualPod{state: uncertain, block: rec.Block})
	}
	return v
}

// recordOf is the record of a volume that is about to be up in one more pod, if that
// has a name.
func recordOf(name v1.UniqueVolumeName, v *actualVolume, more podKey) *record {
	rec := &record{
		Version: recordVersion, Volume: name, Plugin: v.plugin, Name: v.name,
		Spec:       specRecord{v.spec.Volume, v.spec.PersistentVolume, v.spec.ReadOnly},
		Attachable: v.traits.attachable, DeviceMountable: v.traits.deviceMountable, Block: v.traits.block,
		DevicePath: v.devicePath, DeviceMountPath: v.deviceMountPath, Size: v.size,
	}
	for key := range v.pods.all() {
		rec.Pods = append(rec.Pods, podRecord{key.pod, key.name})
	}
	if next := (podRecord{more.pod, more.name}); more.name != "" && !slices.Contains(rec.Pods, next) {
		rec.Pods = append(rec.Pods, next)
	}
	return rec
}

// short keeps hostile text from filling a line.
func short(text string) string {
	const limit = 128
	if len(text) > limit {
		return text[:limit] + "..."
	}
	return text
}
