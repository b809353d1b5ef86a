package docker

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A record describes a volume beyond a restart of the machine. It is written before a change, and
// removed after the volume.
type record struct {
	Version int               `json:"version"`
	Name    string            `json:"name"`
	State   state             `json:"state"`
	Options map[string]string `json:"options,omitempty"`
	Created time.Time         `json:"created"`
	IsShare bool              `json:"isShare,omitempty"` // the storage is neither created nor deleted
	// The request for the storage: its name, size in bytes and parameters of the class.
	Storage    string            `json:"storage"`
	Bytes      int64             `json:"bytes,omitempty"`
	Parameters map[string]string `json:"parameters,omitempty"`
	// Volume has the storage, unless it is being created.
	Volume *v1.PersistentVolume `json:"volume,omitempty"`
	// OwnsRoot: the root directory has the requested owner and mode.
	OwnsRoot bool `json:"ownsRoot,omitempty"`
}

// A state is the progress in the life of a volume.
type state string

const (
	creating state = "creating"
	ready    state = "ready"
	deleting state = "deleting"
)

// parsed returns the options of the volume.
func (r record) parsed() (options, error) { return parseOptions(r.Options) }

// spec returns the specification of a volume that is not being created.
func (r record) spec() (*volume.Spec, error) {
	o, err := r.parsed()
	if err != nil {
		return nil, err
	}
	if r.Volume == nil {
		return nil, errors.New("the record has no storage")
	}
	return volume.NewSpecFromPersistentVolume(r.Volume.DeepCopy(), o.readOnly), nil
}

func (r record) name() string { return r.Name }

func (r record) check() error {
	if !slices.Contains([]state{creating, ready, deleting}, r.State) || r.State != creating && r.Volume == nil {
		return fmt.Errorf("state %q without a volume", r.State)
	}
	if r.Storage == "" || r.State == creating && r.Bytes <= 0 {
		return errors.New("no storage is requested")
	}
	_, err := r.parsed()
	return err
}

// A usage is the use of a volume since the start of the system. Its map is not changed: a change makes a new one.
type usage struct {
	Version int    `json:"version"`
	Name    string `json:"name"`
	// Up: the volume is attached and mounted, or may be in part.
	Up    bool            `json:"up,omitempty"`
	Users map[string]user `json:"users,omitempty"` // by ID
	Shown mountIdentity   `json:"shown,omitzero"`  // how mount tables show it
}

// A user is an ID that has mounted the volume.
type user struct {
	Mounts int       `json:"mounts"` // that were not unmounted
	Since  time.Time `json:"since"`  // the first of these
	// Caller of the last one: the process of the daemon, and that of the driver.
	Caller string `json:"caller"`
}

// mostUsers is the largest number of users of a volume.
const mostUsers = 4096

func (u usage) name() string { return u.Name }

func (u usage) check() error {
	for _, each := range u.Users {
		if each.Mounts <= 0 {
			return fmt.Errorf("%d mounts of a user", each.Mounts)
		}
	}
	return nil
}

func (u usage) isEmpty() bool { return !u.Up && len(u.Users) == 0 }

// with returns the usage with a user in place of an earlier one of its ID. A user without mounts is none.
func (u usage) with(id string, is user) usage {
	users := maps.Clone(u.Users)
	if users == nil {
		users = map[string]user{}
	}
	users[id] = is
	if is.Mounts <= 0 {
		delete(users, id)
	}
	u.Users = users
	return u
}

// parse parses the content of the file of a volume, unless it could not be read.
func parse[T interface {
	name() string
	check() error
}](name string, text []byte, err error) (rec T, _ error) {
	var head struct {
		Version int `json:"version"`
	}
	if err == nil {
		err = json.Unmarshal(text, &head)
	}
	if err == nil && head.Version != recordVersion {
		err = fmt.Errorf("version %d: must be %d", head.Version, recordVersion)
	}
	if err == nil {
		err = json.Unmarshal(text, &rec)
	}
	if err == nil && rec.name() != name {
		err = errors.New("of another volume")
	}
	if err == nil {
		err = checkName(name)
	}
	if err == nil {
		err = rec.check()
	}
	return rec, err
}
