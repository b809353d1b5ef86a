package mounttest

import (
	"context"

	"github.com/volumekit/volumekit/mount"
)

var _ mount.Identifier = (*Fake)(nil)

// MountID implements [mount.Identifier]. It is an [OpIsMountPoint] that says more.
func (f *Fake) MountID(ctx context.Context, p string) (id uint64, err error) {
	err = f.query(ctx, OpIsMountPoint, p, func(p string) error {
		at, err := f.find(p)
		if err == nil && at.isMountPoint() {
			id = uint64(at.in.ID)
		}
		return err
	})
	return id, err
}
