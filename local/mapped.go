package local

import (
	"context"
	"errors"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
)

// setUpMapped shows the volume to the pod with the pod's group, see [Config.MapGroups],
// and reports whether there is nothing more to do.
func (m *mounter) setUpMapped(ctx context.Context, dir, source string, args volume.MounterArgs) (mapped bool, err error) {
	if !m.plugin.config.MapGroups {
		return false, nil
	}
	have, err := ownersOf(source)
	if err != nil {
		return true, util.Transient(err)
	}
	if have.group == *args.FsGroup || !have.isForAGroup() || !mayStandFor(*args.FsGroup) {
		return false, nil
	}
	req := m.request(source, dir, args)
	req.IDMap = mount.SwapGroups(uint32(have.group), uint32(*args.FsGroup))
	err = m.plugin.mounts.SetUp(ctx, dir, req)
	return !errors.Is(err, errors.ErrUnsupported), err
}

// isForAGroup reports whether a volume has been prepared for a group: all in the group
// may do all, and what is made in it is the group's. Root's group is nobody's to give
// away: files that a pod makes executable for their group are stored with it.
func (o owners) isForAGroup() bool {
	const prepared = 0o2070
	return o.group != 0 && o.mode&prepared == prepared
}

// mayStandFor reports whether a group may be shown in place of another one, which is
// stored in its place.
func mayStandFor(group int64) bool {
	const last = 1<<32 - 1 // stands for no ID
	return group > 0 && group < last
}
