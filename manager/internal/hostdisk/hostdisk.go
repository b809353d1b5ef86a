package hostdisk

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/manager/internal/poddirs"
	"github.com/volumekit/volumekit/manager/internal/record"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/podvolume"
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

// RemoveEmptyDirs removes all empty directories of pods, and what is left of subpaths. The caller
// ensures that no operation is in flight.
func (d Disk) RemoveEmptyDirs() {
	ctx := context.Background()
	rmdir := func(dir string) error { return safepath.Rmdir(ctx, dir) }
	poddirs.RemoveEmptyDirs(d.host.Root(), poddirs.Disk{
		NamesIn: poddirs.Names, Rmdir: rmdir, RemoveNote: func(dir string) error { return podvolume.RemoveNoteFiles(ctx, dir) },
		RemoveMountPoint: func(name string) error { return d.removeMountPoint(ctx, name) },
	})
}

// removeMountPoint removes an empty directory, or an empty file. It returns mount.ErrBusy if
// something is mounted there.
func (d Disk) removeMountPoint(ctx context.Context, name string) error {
	mounted, err := d.mounter.IsMountPoint(ctx, name)
	switch {
	case err != nil:
		return err
	case mounted:
		return mount.ErrBusy
	}
	if err := safepath.Rmdir(ctx, name); !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	return safepath.RemoveEmptyFile(ctx, name)
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
