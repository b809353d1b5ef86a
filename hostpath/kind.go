package hostpath

import (
	"context"
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

// A found is what is at a path.
type found struct {
	file *os.File // what was looked at, to be mounted; nil where the system has no such
	mode fs.FileMode
}

func (f found) close() {
	if f.file != nil {
		_ = f.file.Close()
	}
}

// prepare looks whether there is what the type says, and creates it if it says so, but
// not once ctx has ended: nobody waits for it then. What it has created it never takes
// back: another pod may be up on it by then, and the directory that is under a bind
// mount can be removed.
func (s source) prepare(ctx context.Context) (found, error) {
	file, mode, err := open(s.path)
	if errors.Is(err, fs.ErrNotExist) && s.creates() && ctx.Err() == nil {
		if err = s.create(); err == nil {
			file, mode, err = open(s.path)
		}
	}
	if err != nil {
		return found{}, &TypeError{Path: s.path, Want: s.kind, Err: err}
	}
	there := found{file, mode}
	if wanted[s.kind] != nil && !wanted[s.kind](mode) {
		there.close()
		return found{}, &TypeError{Path: s.path, Want: s.kind, Have: mode.Type()}
	}
	return there, nil
}

func (s source) creates() bool {
	return s.kind == v1.HostPathDirectoryOrCreate || s.kind == v1.HostPathFileOrCreate
}

// create makes what is missing, strictly below the root.
func (s source) create() error {
	if s.kind == v1.HostPathDirectoryOrCreate {
		_, err := safepath.MkdirAll(s.root, s.path, 0o755)
		return err
	}
	_, err := safepath.CreateFile(s.root, s.path, 0o644)
	return err
}
