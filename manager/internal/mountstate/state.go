package mountstate

import (
	"context"
	"errors"
	"io/fs"

	"github.com/volumekit/volumekit/mount"
)

// A State is the mount at the path of a failed operation. If it changes, a retry may
// succeed.
type State struct {
	Path    string // empty: not known
	Mounted bool
	Mount   uint64
	// Below identifies the set of mounts below the path, which can block an unmount; 0: none, or
	// not relevant.
	Below uint64
}

// Query reports whether a path is a mount point, and the mount ID; 0 if the Mounter has no
// IDs.
func Query(ctx context.Context, mounter mount.Interface, path string) (mounted bool, id uint64, err error) {
	if identifier, ok := mount.As[mount.Identifier](mounter); ok {
		if id, err = identifier.MountID(ctx, path); !errors.Is(err, errors.ErrUnsupported) {
			return id != 0, id, err
		}
	}
	mounted, err = mounter.IsMountPoint(ctx, path)
	return mounted, 0, err
}

// At returns the mount state of a path; a missing path has no mount.
func At(ctx context.Context, mounter mount.Interface, path string) (State, error) {
	mounted, id, err := Query(ctx, mounter, path)
	if errors.Is(err, fs.ErrNotExist) {
		return State{Path: path}, nil
	}
	return State{Path: path, Mounted: mounted, Mount: id}, err
}
