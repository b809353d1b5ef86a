package mounting

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"github.com/volumekit/volumekit/mount/internal/text"
)

// checkSubmounts refuses a source with submounts, unless the spec has a choice for them. It
// lets a source in a crowded mount be cloned from an anchor.
func (a *arrival) checkSubmounts(ctx context.Context) error {
	var spot building.Spot
	n, below, err := a.maker.Cache.CountAttached(ctx, a.source.Unique, func() (inside string, err error) {
		spot, err = a.source.FindSpot()
		return "/" + spot.Inside, err
	})
	if err != nil && ctx.Err() == nil && a.mustBeLone() && a.requireProof() {
		return nil
	}
	if err != nil || below {
		err = a.refuseSubmounts(ctx)
	}
	if err == nil && n >= building.AnchorThreshold && a.spec.Propagation == spec.PropagationPrivate && a.spec.Submounts != spec.IncludeSubmounts {
		a.maker.Builder.UseAnchor(a.source, spot)
	}
	return err
}

// mustBeLone reports whether the spec refuses submounts, and the source can have any.
func (a *arrival) mustBeLone() bool {
	return a.spec.Submounts == spec.RefuseSubmounts && a.source.ID.Dir
}

// requireProof makes the tree prove that its source is alone, and reports whether the kernel
// can prove that.
func (a *arrival) requireProof() bool {
	longTable := a.maker.TableLength.Load() >= building.AnchorThreshold
	return a.maker.Builder.RequireProof(a.source, a.spec, longTable)
}

// refuseSubmounts reads the mount table, and fails if the source must be alone and is not.
func (a *arrival) refuseSubmounts(ctx context.Context) error {
	if !a.mustBeLone() {
		return nil
	}
	dir, err := kernel.PathOf(a.source.FD)
	if err != nil {
		return err
	}
	id, err := kernel.Identify(a.source.FD)
	if err != nil {
		return err
	}
	at, found, err := a.maker.findSubmount(ctx, id.Mount, dir)
	if err == nil && found {
		err = fmt.Errorf("%w: %s", failure.ErrSubmounts, text.Quote(at))
	}
	return err
}

// findSubmount returns the mount point of a mount that is attached in a mount, at or below dir.
func (m *Maker) findSubmount(ctx context.Context, mount uint64, dir string) (at string, found bool, err error) {
	table, err := mountinfo.Read(ctx)
	if err != nil {
		return "", false, err
	}
	m.TableLength.Store(int64(len(table)))
	for _, entry := range table {
		if uint64(entry.Parent) != mount || uint64(entry.ID) == mount {
			continue
		}
		if _, ok := mountinfo.CutDir(dir, entry.Mountpoint); ok {
			return entry.Mountpoint, true, nil
		}
	}
	return "", false, nil
}
