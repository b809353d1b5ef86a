package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// wanted says which kinds of file a type takes. Nil: all.
var wanted = map[v1.HostPathType]func(fs.FileMode) bool{
	v1.HostPathUnset:             nil,
	v1.HostPathDirectory:         fs.FileMode.IsDir,
	v1.HostPathDirectoryOrCreate: fs.FileMode.IsDir,
	v1.HostPathFile:              fs.FileMode.IsRegular,
	v1.HostPathFileOrCreate:      fs.FileMode.IsRegular,
	v1.HostPathSocket:            func(m fs.FileMode) bool { return m.Type() == fs.ModeSocket },
	v1.HostPathCharDev:           func(m fs.FileMode) bool { return m.Type() == fs.ModeDevice|fs.ModeCharDevice },
	v1.HostPathBlockDev:          func(m fs.FileMode) bool { return m.Type() == fs.ModeDevice },
}

// A TypeError is a path at which there is not what the volume's type says. It wraps
// [volume.ErrTransient], and fs.ErrNotExist if there is nothing.
type TypeError struct {
	Path string
	Want v1.HostPathType
	Have fs.FileMode // its type bits
	Err  error       // nil: something is there
}

// Error says what should be there.
func (e *TypeError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("host path %q, type %q: %v", e.Path, e.Want, e.Err)
	}
	return fmt.Sprintf("host path %q is not of type %q: it is %q", e.Path, e.Want, e.Have)
}

// Unwrap returns the cause, and that it may pass.
func (e *TypeError) Unwrap() []error {
	if e.Err == nil {
		return []error{volume.ErrTransient}
	}
	return []error{e.Err, volume.ErrTransient}
}

// A found is what is at a path, and how to take back what was created there.
type found struct {
	file *os.File // what was looked at, to be mounted; nil where the system has no such
	mode fs.FileMode
	undo func() error
}

func nothing() error { return nil }

func (f found) close() {
	if f.file != nil {
		_ = f.file.Close()
	}
}

// prepare looks whether there is what the type says, and creates it if it says so.
func (s source) prepare() (found, error) {
	file, mode, err := open(s.path)
	undo := nothing
	if errors.Is(err, fs.ErrNotExist) && s.creates() {
		if undo, err = s.create(); err == nil {
			file, mode, err = open(s.path)
		}
	}
	there := found{file, mode, undo}
	if err == nil && wanted[s.kind] != nil && !wanted[s.kind](mode) {
		there.close()
		return found{}, errors.Join(&TypeError{Path: s.path, Want: s.kind, Have: mode.Type()}, undo())
	}
	if err != nil {
		return found{}, errors.Join(&TypeError{Path: s.path, Want: s.kind, Err: err}, undo())
	}
	return there, nil
}

func (s source) creates() bool {
	return s.kind == v1.HostPathDirectoryOrCreate || s.kind == v1.HostPathFileOrCreate
}

// create makes what is missing, strictly below the root.
func (s source) create() (undo func() error, err error) {
	if s.kind == v1.HostPathDirectoryOrCreate {
		made, err := safepath.MkdirAll(s.root, s.path, 0o755)
		return func() error { return ifThere(safepath.RemoveMade(made, s.path)) }, err
	}
	created, err := safepath.CreateFile(s.root, s.path, 0o644)
	if !created {
		return nothing, err
	}
	return func() error { return ifThere(safepath.RemoveEmptyFile(s.path)) }, err
}

// ifThere forgives what is not to be undone any more: somebody else has removed it, or
// uses it by now.
func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, safepath.ErrNotEmpty) || isInUse(err) {
		return nil
	}
	return err
}
