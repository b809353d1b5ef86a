package unmounting

import (
	"context"

	"github.com/volumekit/volumekit/mount/internal/child"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/lookup"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/util/keylock"
)

// A Config has the policy and the dependencies of an [Unmounter].
type Config struct {
	Policy   Policy
	Resolver *lookup.Resolver
	// Locks has the paths at which a call may change the mount table.
	Locks *keylock.Map
	Kinds *record.Kinds
	// Probes ask file systems whether they answer.
	Probes *child.Probes
	// BeginDeparture registers a mount that is about to be unmounted, until end is called,
	// and reports whether its superblock is outlived by a mount that is not registered.
	BeginDeparture func(ctx context.Context, mount kernel.Location) (end func(), outlived bool, err error)
	// ForgetAnchor closes the descriptors of a mount that keep its superblock from ending.
	ForgetAnchor func(mount kernel.MountID)
}

// An Unmounter unmounts for several callers at once.
type Unmounter struct {
	Config
	ends   superblockEnds
	forced firstForces
}

// New returns an Unmounter.
func New(config Config) *Unmounter { return &Unmounter{Config: config} }

// Unmount unmounts the top mount at path and waits for the end of its superblock. If ctx ends
// first the error wraps failure.ErrNotEnded. A path that is no mount point is no error.
func (u *Unmounter) Unmount(ctx context.Context, path string) error {
	return u.unmount(ctx, path, 0)
}

// unmount unmounts the mount with an ID at path, or the top mount if the ID is 0.
func (u *Unmounter) unmount(ctx context.Context, path string, id uint64) error {
	if err := u.removeFromTable(ctx, path, id); err != nil {
		return err
	}
	return u.ends.await(ctx, path)
}
