package local

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
)

// setUpMapped mounts the volume with the pod's group, see [Config.MapGroups], and reports
// whether that was possible.
func (m *mounter) setUpMapped(ctx context.Context, dir, source string, at place, args volume.MounterArgs) (mapped bool, err error) {
	if !m.plugin.config.MapGroups {
		return false, nil
	}
	have, err := m.plugin.queryOwners(ctx, source, at)
	if err != nil {
		return true, err
	}
	if have.group == *args.FsGroup || !have.isForAGroup() || !isReplaceable(*args.FsGroup) {
		return false, nil
	}
	req := m.request(source, dir, args)
	req.IDMap = mount.SwapGroups(uint32(have.group), uint32(*args.FsGroup))
	err = m.plugin.mounts.Mount(ctx, dir, req)
	return !errors.Is(err, errors.ErrUnsupported), err
}

// isMapped reports whether the volume is mounted with an ID map. The map's group is not
// visible any more: the pod may have changed group and mode of the root.
func (m *mounter) isMapped(ctx context.Context, dir string, req mount.Request) (bool, error) {
	at, view, err := m.plugin.mounts.At(ctx, dir)
	if err != nil || !slices.Contains(at.Options, "idmapped") {
		return false, err
	}
	options, err := req.Parse(allowAll)
	if err != nil {
		return false, err
	}
	if at.Deleted || !hasOptions(at, options) || (place{at.Major, at.Minor, at.Root}) != placeIn(view, req.Source) {
		return false, fmt.Errorf("%s: %w: %w", dir, volume.ErrAlreadyMounted, mount.ErrMounted)
	}
	return true, nil
}

// hasOptions reports whether a mount has the flags that the options ask for.
func hasOptions(at mount.Info, options mount.Options) bool {
	return options.Apply(at.Flags) == at.Flags && options.ReadOnly() == (at.Flags&mount.ReadOnly != 0)
}

// isForAGroup reports whether a volume has been prepared for a group: the group has all
// permissions, and new files get the group. Root's group does not qualify: files that a pod
// makes executable for their group would be stored with it.
func (o owners) isForAGroup() bool {
	const prepared = 0o2070
	return o.group != 0 && o.mode&prepared == prepared
}

// isReplaceable reports whether a stored group may be shown as another one.
func isReplaceable(group int64) bool {
	const last = 1<<32 - 1 // is no valid ID
	return group > 0 && group < last
}
