package hostpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// typeChecks maps types to their test of a file's mode. Nil: any file.
var typeChecks = map[v1.HostPathType]func(fs.FileMode) bool{
	v1.HostPathUnset:             nil,
	v1.HostPathDirectory:         fs.FileMode.IsDir,
	v1.HostPathDirectoryOrCreate: fs.FileMode.IsDir,
	v1.HostPathFile:              fs.FileMode.IsRegular,
	v1.HostPathFileOrCreate:      fs.FileMode.IsRegular,
	v1.HostPathSocket:            func(m fs.FileMode) bool { return m.Type() == fs.ModeSocket },
	v1.HostPathCharDev:           func(m fs.FileMode) bool { return m.Type() == fs.ModeDevice|fs.ModeCharDevice },
	v1.HostPathBlockDev:          func(m fs.FileMode) bool { return m.Type() == fs.ModeDevice },
}

// A TypeError is the error of a path whose file is missing or of another kind than the
// volume's type. It wraps [volume.ErrTransient], and fs.ErrNotExist for a missing file. With
// EPERM it is final: the process lacks a privilege.
type TypeError struct {
	Path string
	Want v1.HostPathType
	Have fs.FileMode // the type bits of the file at the path
	Err  error       // nil: the file exists
}

// Error names the path, the type and the kind of file found.
func (e *TypeError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("host path %q, type %q: %v", e.Path, e.Want, e.Err)
	}
	return fmt.Sprintf("host path %q: must be of type %q, is %q", e.Path, e.Want, e.Have)
}

// Unwrap returns the cause and the kind.
func (e *TypeError) Unwrap() []error {
	if e.Err == nil {
		return []error{volume.ErrTransient}
	}
	return []error{util.Transient(e.Err)}
}

// A found is the file at a path.
type found struct {
	file *os.File // the checked file, to be mounted; nil on systems without O_PATH
	id   fileID   // zero on systems without O_PATH
	mode fs.FileMode
	// mount is the unique ID of the mount that the file is in; 0: not known, as before Linux 6.8.
	mount uint64
	path  string     // without symbolic links; also of a missing file
	last  *LinkError // the last link on the way, ready as an error in case it leads out
}

// A fileID identifies a file as long as it is mounted, also under another name or without one.
type fileID struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

func (f found) close() {
	if f.file != nil {
		_ = f.file.Close()
	}
}

// prepare checks the file's type, and creates a missing file if the type says so, but not
// after the end of ctx. It never removes a file that it has created: another pod may use it
// by then, and the kernel permits removing a directory under a bind mount.
func (p *Plugin) prepare(ctx context.Context, s source) (found, error) {
	there, err := p.open(s)
	if errors.Is(err, fs.ErrNotExist) && p.creates(s.kind) && ctx.Err() == nil {
		there, err = p.create(s, there.path)
	}
	if err != nil {
		return found{}, s.failed(err)
	}
	if typeChecks[s.kind] != nil && !typeChecks[s.kind](there.mode) {
		there.close()
		return found{}, &TypeError{Path: s.path, Want: s.kind, Have: there.mode.Type()}
	}
	return there, nil
}

// failed makes an error of a file a [*TypeError]; an error about the specification stays.
func (s source) failed(err error) error {
	var invalid *field.Error
	if errors.As(err, &invalid) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		err = fmt.Errorf("requires root, or permission for the path: %w", err)
	}
	return &TypeError{Path: s.path, Want: s.kind, Err: err}
}

// open opens the file at the path, which is at or below a root. For a missing file it
// returns the path along with the error.
func (p *Plugin) open(s source) (found, error) {
	there, err := p.follow(s.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return there, err
	}
	if _, ok := p.roots.Containing(there.path); ok {
		return there, err
	}
	there.close()
	if there.last != nil {
		return found{}, there.last
	}
	return found{}, s.errOutside()
}

func (p *Plugin) creates(kind v1.HostPathType) bool {
	switch kind {
	case v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate:
		return true
	case v1.HostPathUnset:
		return p.config.CreateMissing
	}
	return false
}

// create creates the missing file of a path without symbolic links, strictly below its root.
func (p *Plugin) create(s source, missing string) (found, error) {
	root, ok := p.roots.Containing(missing)
	if !ok {
		return found{}, s.errOutside()
	}
	var err error
	if s.kind == v1.HostPathFileOrCreate {
		_, err = safepath.CreateFile(context.Background(), root, missing, 0o644)
	} else {
		_, err = safepath.MkdirAll(context.Background(), root, missing, 0o755)
	}
	if err != nil {
		return found{}, err
	}
	return open(missing)
}
