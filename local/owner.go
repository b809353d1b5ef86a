package local

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// An OwnerConflict is a pod that asks for another group of a volume than it has for
// pods that use it already, or a volume that it is in, or one that is in it. Nothing is changed by it.
type OwnerConflict struct {
	Path      string   // of the volume for the pod that asks
	WantGroup int64    // is asked for
	HaveGroup int64    // of the volume's root, or of that of another one in it
	UsedAt    []string // the volume's paths for the other pods
}

// Error says who wants what.
func (e *OwnerConflict) Error() string {
	text := fmt.Sprintf("volume at %s: group %d is asked for, but it belongs to group %d for %d pods that use it",
		e.Path, e.WantGroup, e.HaveGroup, len(e.UsedAt))
	if len(e.UsedAt) > 0 {
		text += ", the first at " + e.UsedAt[0]
	}
	return text
}

// owners are the group that a directory belongs to, and its mode as the kernel has it.
type owners struct {
	group int64
	mode  uint32
}

// giveAway gives what is in source to the group that the pod asks for.
func (m *mounter) giveAway(ctx context.Context, dir, source string, args volume.MounterArgs) error {
	used, err := m.plugin.usedBy(ctx, source)
	if err != nil {
		return err
	}
	around, within, err := m.plugin.usedAround(ctx, source)
	if err != nil {
		return err
	}
	if used = append(used, around...); len(used) > 0 {
		_, err := m.compareOwners(ctx, dir, source, args, used)
		return err
	}
	for _, inner := range within {
		if same, err := m.compareOwners(ctx, dir, inner, args, []string{inner}); !same || err != nil {
			return err
		}
	}
	o := ownership.Options{Group: args.FsGroup}
	if p := args.FSGroupChangePolicy; p != nil && *p == v1.FSGroupChangeOnRootMismatch {
		o.Policy = ownership.OnRootMismatch
	}
	_, err = ownership.Apply(ctx, source, o)
	return ownersFailed(err)
}

// ownersFailed: it may have been done in part, which harms nobody; the volume is not
// mounted by it.
func ownersFailed(err error) error {
	var refused *ownership.InputError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return util.Transient(err)
}

// usedBy returns the paths of pods at which source is mounted.
func (p *Plugin) usedBy(ctx context.Context, source string) ([]string, error) {
	refs, err := p.config.Mounter.MountRefs(ctx, source)
	if err != nil {
		return nil, util.Transient(err)
	}
	own, err := p.host.PluginDir(PluginName)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(refs, func(ref string) bool {
		return !strings.HasPrefix(ref, p.host.Root()+"/") || strings.HasPrefix(ref, own+"/")
	}), nil
}

// usedAround returns the paths at which pods have local volumes that source is in, and
// those that are in source: to give one away is to give all that is in it.
func (p *Plugin) usedAround(ctx context.Context, source string) (around, within []string, err error) {
	mounts, err := p.config.Mounter.List(ctx)
	if err != nil {
		return nil, nil, util.Transient(err)
	}
	table := mount.Table(mounts)
	in, ok := table.Containing(source)
	if !ok {
		return nil, nil, nil
	}
	mine := path.Join(in.Root, strings.TrimPrefix(source, in.Mountpoint))
	for _, other := range mounts {
		if other.Major != in.Major || other.Minor != in.Minor || !p.isPodMount(other.Mountpoint) {
			continue
		}
		if _, ok := below(other.Root, mine); ok {
			around = append(around, other.Mountpoint)
		}
		if _, ok := below(mine, other.Root); ok {
			within = append(within, other.Mountpoint)
		}
	}
	return around, within, nil
}

// isPodMount reports whether a path is where a pod has a local volume.
func (p *Plugin) isPodMount(at string) bool {
	dir, err := p.host.PodVolumeDir("pod", PluginName, "volume")
	return err == nil && strings.HasPrefix(at, p.host.Root()+"/") &&
		strings.HasSuffix(path.Dir(at), "/volumes/"+path.Base(path.Dir(dir)))
}

// compareOwners lets a pod have a volume that others use as it is, and reports whether
// what is at a path belongs to whom the pod asks for.
func (m *mounter) compareOwners(ctx context.Context, dir, at string, args volume.MounterArgs, used []string) (same bool, err error) {
	have, err := ownersOf(at)
	if err != nil {
		return false, util.Transient(err)
	}
	if have.group == *args.FsGroup {
		return true, nil
	}
	conflict := &OwnerConflict{Path: dir, WantGroup: *args.FsGroup, HaveGroup: have.group, UsedAt: used}
	if tell := m.plugin.config.OnOwnerConflict; tell != nil {
		return false, tell(ctx, conflict)
	}
	return false, conflict
}
