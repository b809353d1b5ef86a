package csi

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// appliesGroup reports whether the files of a volume are given to the group of a pod: by the plugin, unless
// the request has the group, for a driver with the capability VOLUME_MOUNT_GROUP.
func (s source) appliesGroup(group *int64, policy storagev1.FSGroupPolicy) bool {
	switch {
	case group == nil, s.readOnly, policy == storagev1.NoneFSGroupPolicy:
		return false
	case policy == storagev1.FileFSGroupPolicy:
		return true
	case s.fsType == "":
		return false
	case s.inline != nil:
		return true
	}
	return slices.ContainsFunc(s.spec.PersistentVolume.Spec.AccessModes, func(mode v1.PersistentVolumeAccessMode) bool {
		return mode == v1.ReadWriteOnce || mode == v1.ReadWriteOncePod
	})
}

// onRootMismatch returns the arguments for a volume whose group may have been applied. The group of the root
// is changed last, and so shows that all files have theirs.
func onRootMismatch(args volume.MounterArgs) volume.MounterArgs {
	policy := v1.FSGroupChangeOnRootMismatch
	args.FSGroupChangePolicy = &policy
	return args
}

// applyGroup gives the files of a published volume to the group, unless all of it is read-only. An
// error is uncertain: the volume is published.
func (p *Plugin) applyGroup(ctx context.Context, dir string, args volume.MounterArgs) error {
	o := podvolume.OwnershipOptions(args)
	if decide := p.config.OnUnchanged; decide != nil {
		o.OnUnchanged = func(entry string, err error) error { return decide(ctx, path.Join(dir, entry), err) }
	}
	if _, err := ownership.Apply(ctx, dir, o); err != nil && !errors.Is(err, ownership.ErrReadOnly) {
		return volume.AsUncertain(fmt.Errorf("give the published volume to group %d: %w", *args.FsGroup, err))
	}
	return nil
}
