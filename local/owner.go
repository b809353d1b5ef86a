package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// An OwnerConflict is a pod that asks for other owners of a volume than it has for
// pods that use it already. Nothing is changed by it.
type OwnerConflict struct {
	Path string // of the volume for the pod that asks
	// WantUser and WantGroup are asked for; nil: whatever there is.
	WantUser, WantGroup *int64
	HaveUser, HaveGroup int64    // of the volume's root
	UsedAt              []string // the volume's paths for the other pods
}

// Error says who wants what.
func (e *OwnerConflict) Error() string {
	want := func(id *int64) string {
		if id == nil {
			return "any"
		}
		return fmt.Sprint(*id)
	}
	text := fmt.Sprintf("volume at %s: user %s and group %s are asked for, but it belongs to user %d and group %d for %d pods that use it",
		e.Path, want(e.WantUser), want(e.WantGroup), e.HaveUser, e.HaveGroup, len(e.UsedAt))
	if len(e.UsedAt) > 0 {
		text += ", the first at " + e.UsedAt[0]
	}
	return text
}

// giveAway gives what is in source to the users that the pod asks for.
func (m *mounter) giveAway(ctx context.Context, dir, source string, args volume.MounterArgs) error {
	used, err := m.plugin.usedBy(ctx, source)
	if err != nil {
		return err
	}
	if len(used) > 0 {
		return m.compareOwners(ctx, dir, source, args, used)
	}
	o := ownership.Options{User: args.FsUser, Group: args.FsGroup}
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

// compareOwners lets a pod have a volume that others use as it is.
func (m *mounter) compareOwners(ctx context.Context, dir, source string, args volume.MounterArgs, used []string) error {
	user, group, err := ownersOf(source)
	if err != nil {
		return util.Transient(err)
	}
	differs := func(want *int64, have int64) bool { return want != nil && *want != have }
	if !differs(args.FsUser, user) && !differs(args.FsGroup, group) {
		return nil
	}
	conflict := &OwnerConflict{
		Path: dir, WantUser: args.FsUser, WantGroup: args.FsGroup, HaveUser: user, HaveGroup: group, UsedAt: used,
	}
	if tell := m.plugin.config.OnOwnerConflict; tell != nil {
		return tell(ctx, conflict)
	}
	return conflict
}
