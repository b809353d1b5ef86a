package customplugin

import (
	"context"
	"slices"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// setUp gives the share to the pod's group before a pod sees it. While a pod uses the share,
// including this one, its owners stay as they are.
func (m *mounter) setUp(ctx context.Context, dir string, req mount.Request, args volume.MounterArgs) error {
	unlock, err := m.plugin.giving.Lock(ctx, m.source) // other pods wait until one has the share
	if err != nil {
		return util.Transient(err)
	}
	defer unlock()
	if args.FsGroup != nil && !m.readOnly {
		if err := m.giveUnlessUsed(ctx, args); err != nil {
			return util.Transient(err) // a retry continues
		}
	}
	return m.plugin.mounts.Mount(ctx, dir, req)
}

func (m *mounter) giveUnlessUsed(ctx context.Context, args volume.MounterArgs) error {
	refs, err := m.plugin.config.Mounter.MountRefs(ctx, m.source)
	if err != nil || slices.ContainsFunc(refs, m.plugin.mounts.IsTarget) {
		return err
	}
	o := ownership.Options{Group: args.FsGroup}
	if p := args.FSGroupChangePolicy; p != nil && *p == v1.FSGroupChangeOnRootMismatch {
		o.Policy = ownership.OnRootMismatch
	}
	_, err = ownership.Apply(ctx, m.source, o)
	return err
}
