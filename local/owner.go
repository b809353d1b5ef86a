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
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// An OwnerConflict is the request of a pod for another group of a volume than the volume has
// for current pods, or than an enclosing or enclosed volume has. Nothing has changed.
type OwnerConflict struct {
	Path      string   // of the volume for the requesting pod
	WantGroup int64    // the requested group
	HaveGroup int64    // of the volume's root, or of the root of an enclosed volume
	UsedAt    []string // the volume's paths for the other pods
}

// Error names both groups and the users.
func (e *OwnerConflict) Error() string {
	text := fmt.Sprintf("volume at %s: group %d requested, group %d in use by %d pods", e.Path, e.WantGroup, e.HaveGroup, len(e.UsedAt))
	if len(e.UsedAt) > 0 {
		text += ", the first at " + e.UsedAt[0]
	}
	return text
}

// owners are the group and the mode of a directory, and whether its file system or its mount is
// read-only.
type owners struct {
	group    int64
	mode     uint32
	readOnly bool
}

// changeGroup gives all files in source to the requested group. While pods use the volume, or one
// around it, nothing changes: the volume has the group, or OnOwnerConflict decides; the same holds
// for a volume inside it that has another group. It returns nil, too, if the file system keeps its
// owners since it is read-only as a whole.
func (m *mounter) changeGroup(ctx context.Context, dir, source string, at place, args volume.MounterArgs) error {
	used, err := m.plugin.usedBy(ctx, source)
	if err != nil {
		return err
	}
	around, within, err := m.plugin.usedAround(ctx, source)
	if err != nil {
		return err
	}
	conflict := OwnerConflict{Path: dir, WantGroup: *args.FsGroup}
	if conflict.UsedAt = append(used, around...); len(conflict.UsedAt) > 0 {
		_, err := m.compareOwners(ctx, source, at, conflict)
		return err
	}
	for _, inner := range within {
		conflict.UsedAt = []string{inner}
		if same, err := m.compareOwners(ctx, inner, at, conflict); !same || err != nil {
			return err
		}
	}
	o := podvolume.OwnershipOptions(args)
	if decide := m.plugin.config.OnUnchanged; decide != nil {
		o.OnUnchanged = func(entry string, err error) error { return decide(ctx, path.Join(source, entry), err) }
	}
	_, err = ownership.Apply(ctx, source, o)
	if errors.Is(err, ownership.ErrReadOnly) && m.inheritsReadOnly() {
		return nil
	}
	return ownersFailed(err)
}

// inheritsReadOnly reports whether the pod's mount is read-only if that of its source is, as without
// the option "rw".
func (m *mounter) inheritsReadOnly() bool { return !slices.Contains(m.flags, "rw") }

// ownersFailed returns a transient error: a partial change is harmless, since the volume is
// not mounted.
func ownersFailed(err error) error {
	var refused *ownership.InputError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return util.Transient(err)
}

// usedBy returns the pods' paths at which source is mounted.
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
		return !p.mounts.IsTarget(ref) || strings.HasPrefix(ref, own+"/")
	}), nil
}

// usedAround returns the pods' paths of local volumes that contain source, and of those inside
// source: a change of owners affects all of them.
func (p *Plugin) usedAround(ctx context.Context, source string) (around, within []string, err error) {
	view, err := p.table(ctx)
	if err != nil {
		return nil, nil, err
	}
	sourcePlace := placeIn(view, source)
	for _, other := range view.Table() {
		if other.Major != sourcePlace.major || other.Minor != sourcePlace.minor || !p.isPodMount(other.Mountpoint) {
			continue
		}
		if _, ok := below(other.Root, sourcePlace.path); ok {
			around = append(around, other.Mountpoint)
		}
		if _, ok := below(sourcePlace.path, other.Root); ok {
			within = append(within, other.Mountpoint)
		}
	}
	return around, within, nil
}

func (p *Plugin) table(ctx context.Context) (*mount.View, error) {
	mounts, err := p.config.Mounter.List(ctx)
	if err != nil {
		return nil, util.Transient(err)
	}
	return mount.Table(mounts).View(), nil
}

// placeIn returns the place of a directory by the mount table.
func placeIn(view *mount.View, dir string) place {
	in, ok := view.Containing(dir)
	if !ok {
		return place{path: dir}
	}
	return place{in.Major, in.Minor, path.Join(in.Root, strings.TrimPrefix(dir, in.Mountpoint))}
}

// isPodMount reports whether a path can be a pod's mount point of a local volume. Below a
// target directory every path can.
func (p *Plugin) isPodMount(at string) bool {
	dir, err := p.host.PodVolumeDir("pod", PluginName, "volume")
	if !strings.HasPrefix(at, p.host.Root()+"/") {
		return p.mounts.IsTarget(at)
	}
	return err == nil &&
		strings.HasSuffix(path.Dir(at), "/volumes/"+path.Base(path.Dir(dir)))
}

// queryOwners calls ownersOf for a directory in the file system of a place, and returns soon
// after ctx ends. Later calls for that file system wait for the end of a stuck one: at most one
// thread is stuck.
func (p *Plugin) queryOwners(ctx context.Context, dir string, fileSystem place) (owners, error) {
	unlock, err := p.queries.Lock(ctx, fmt.Sprintf("%d:%d", fileSystem.major, fileSystem.minor))
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

// compareOwners accepts a volume that other pods use with its current owners, and reports
// whether the volume's root, or that of an enclosed volume, has the requested group, or cannot
// have another one.
func (m *mounter) compareOwners(ctx context.Context, root string, fileSystem place, conflict OwnerConflict) (same bool, err error) {
	have, err := m.plugin.queryOwners(ctx, root, fileSystem)
	if err != nil {
		return false, err
	}
	if have.group == conflict.WantGroup || have.readOnly && m.inheritsReadOnly() {
		return true, nil
	}
	conflict.HaveGroup = have.group
	if decide := m.plugin.config.OnOwnerConflict; decide != nil {
		return false, decide(ctx, &conflict)
	}
	return false, &conflict
}
