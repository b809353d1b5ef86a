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
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// An OwnerConflict is a pod that asks for another group of a volume than it has for
// pods that use it already, or a volume that it is in, or one that is in it. Nothing is
// changed by it.
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
func (m *mounter) giveAway(ctx context.Context, dir, source string, at place, args volume.MounterArgs) error {
	used, err := m.plugin.usedBy(ctx, source)
	if err != nil {
		return err
	}
	around, within, err := m.plugin.usedAround(ctx, source)
	if err != nil {
		return err
	}
	if used = append(used, around...); len(used) > 0 {
		_, err := m.compareOwners(ctx, dir, source, at, args, used)
		return err
	}
	for _, inner := range within {
		if same, err := m.compareOwners(ctx, dir, inner, at, args, []string{inner}); !same || err != nil {
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
	table, err := p.table(ctx)
	if err != nil {
		return nil, nil, err
	}
	mine := placeIn(table, source)
	for _, other := range table {
		if other.Major != mine.major || other.Minor != mine.minor || !p.isPodMount(other.Mountpoint) {
			continue
		}
		if _, ok := below(other.Root, mine.path); ok {
			around = append(around, other.Mountpoint)
		}
		if _, ok := below(mine.path, other.Root); ok {
			within = append(within, other.Mountpoint)
		}
	}
	return around, within, nil
}

func (p *Plugin) table(ctx context.Context) (mount.Table, error) {
	mounts, err := p.config.Mounter.List(ctx)
	if err != nil {
		return nil, util.Transient(err)
	}
	return mount.Table(mounts), nil
}

// placeIn returns where a directory is, by the mount table.
func placeIn(table mount.Table, dir string) place {
	in, ok := table.Containing(dir)
	if !ok {
		return place{path: dir}
	}
	return place{in.Major, in.Minor, path.Join(in.Root, strings.TrimPrefix(dir, in.Mountpoint))}
}

// isPodMount reports whether a path is where a pod has a local volume.
func (p *Plugin) isPodMount(at string) bool {
	dir, err := p.host.PodVolumeDir("pod", PluginName, "volume")
	return err == nil && strings.HasPrefix(at, p.host.Root()+"/") &&
		strings.HasSuffix(path.Dir(at), "/volumes/"+path.Base(path.Dir(dir)))
}

// ask is ownersOf, of a directory in the file system of a place, until ctx ends. Until
// what it leaves at work has come to its end nobody else asks that file system: however
// often volumes of it are tried, one thread waits for it.
func (p *Plugin) ask(ctx context.Context, dir string, in place) (owners, error) {
	unlock, err := p.asking.Lock(ctx, fmt.Sprintf("%d:%d", in.major, in.minor))
	if err != nil {
		return owners{}, util.Transient(ctxend.Error(ctx))
	}
	type answer struct {
		owners
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		defer unlock()
		have, err := ownersOf(dir)
		answers <- answer{have, err}
	}()
	got, ok := ctxend.Receive(ctx, answers, 0)
	switch {
	case !ok:
		return owners{}, util.Transient(ctxend.Error(ctx))
	case got.err != nil:
		return owners{}, util.Transient(got.err)
	}
	return got.owners, nil
}

// compareOwners lets a pod have a volume that others use as it is, and reports whether
// what is at a path belongs to whom the pod asks for.
func (m *mounter) compareOwners(ctx context.Context, dir, at string, in place, args volume.MounterArgs, used []string) (same bool, err error) {
	have, err := m.plugin.ask(ctx, at, in)
	if err != nil {
		return false, err
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
