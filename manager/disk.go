package manager

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A disk is what the manager itself reads and writes below the host's root. The
// simulation has another.
type disk interface {
	write(record) error
	remove(v1.UniqueVolumeName) error
	read() ([]record, map[string]error)
	place() string                   // where the records are
	volumes() ([]foundVolume, error) // of pods
	tidy(path string) error          // removes the empty directories around one of a volume
	sweep()                          // removes all empty ones; nothing else is at work
}

type hostDisk struct {
	records
	host volume.VolumeHost
}

func newHostDisk(host volume.VolumeHost) (hostDisk, error) {
	records, err := newRecords(host)
	return hostDisk{records, host}, err
}

func (d hostDisk) place() string { return d.dir }

func (d hostDisk) sweep() { removeEmpties(d.host.Root(), namesOrNone, safepath.Rmdir) }

func (d hostDisk) volumes() ([]foundVolume, error) { return findVolumes(d.host.Root(), namesIn) }

func (d hostDisk) tidy(path string) error {
	err := util.RemoveEmptyParents(d.host.Root(), path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %w", volume.ErrUncertain, err)
	}
	return nil
}
