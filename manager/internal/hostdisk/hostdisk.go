package hostdisk

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
)

// A Disk is the part of the host's root that the manager itself reads and writes.
type Disk struct {
	record.Directory
	host     volume.VolumeHost
	mounter  mount.Interface
	subpaths *keylock.Map // serializes the work on one volume
}

// New returns the disk of a host.
func New(host volume.VolumeHost, mounter mount.Interface) (Disk, error) {
	records, err := record.NewDirectory(host)
	return Disk{records, host, mounter, &keylock.Map{}}, err
}

// RecordDir returns the directory of the records.
func (d Disk) RecordDir() string { return d.Path }

// RemoveEmptyDirs removes all empty directories of pods. The caller ensures that no operation
// is in flight.
func (d Disk) RemoveEmptyDirs() {
	poddirs.RemoveEmptyDirs(d.host.Root(), poddirs.NamesOrNone, func(dir string) error { return safepath.Rmdir(context.Background(), dir) })
}

// FindVolumes returns the directories of pods' volumes.
func (d Disk) FindVolumes() (poddirs.Layout, error) {
	return poddirs.FindVolumes(d.host.Root(), poddirs.Names)
}

// RemoveEmptyParents removes the empty directories around a volume's directory.
func (d Disk) RemoveEmptyParents(ctx context.Context, path string) error {
	// The directory of all pods stays: the plugin of another pod may create a directory in it now.
	err := util.RemoveEmptyParents(ctx, filepath.Join(d.host.Root(), "pods"), path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return volume.AsUncertain(err)
	}
	return nil
}
