package mounting

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/inflight"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/util/ctxend"
)

// remount changes the flags of the existing mount, and of no other.
func (a *arrival) remount(ctx context.Context) error {
	defer a.close()
	if err := a.openTarget(ctx); err != nil {
		return err
	}
	if !a.target.mounted {
		return failure.ErrNotMounted
	}
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	if a.claim.MustNotWait && !a.isLocal() {
		return errMayWait
	}
	if !a.claim.Acquire() {
		return inflight.ErrRevoked
	}
	return changeFlags(a.maker.Builder, a.target.fd, a.spec.Options)
}

// changeFlags changes and verifies the flags of the mount at fd. It reverts a change that has
// another effect.
func changeFlags(builder *building.Builder, fd int, o options.Options) error {
	before, err := mountinfo.StatusOf(fd)
	if err != nil {
		return err
	}
	if err := builder.ChangeFlags(fd, o); err != nil {
		return err
	}
	after, err := mountinfo.StatusOf(fd)
	if err != nil {
		return failure.AsUncertain(err)
	}
	if err := verifyFlags(after, o); err != nil {
		if revert := builder.ChangeFlags(fd, options.Exactly(options.FlagsOf(before.Attrs))); revert != nil {
			return failure.AsUncertain(fmt.Errorf("%w (reverting the remount: %w)", err, revert))
		}
		return err
	}
	return nil
}
