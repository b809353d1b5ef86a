package hostpath

import (
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errNoOrigin: what is behind a mount is not to be found below the roots.
var errNoOrigin = errors.New("what is mounted there is not below one of the directories where host paths may be")

// ConstructVolumeSpec recovers the path of what is mounted at mountPath from the mount
// table: as a volume that is written in a pod; or, if its flags are not those that such
// a volume has, as a persistent one with mount options. Of the type only that it is a
// device is recovered.
//
// A path that is not below the host's root is a [*field.Error]. If nothing is mounted
// there the error wraps [volume.ErrNotMounted]; if something is, and its path cannot be
// found below the roots (it may have been removed), [volume.ErrUncertain].
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (*volume.Spec, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return nil, err
	}
	if p.host == nil {
		return nil, errNotInitialised
	}
	at, table, err := p.mounts.At(ctx, mountPath)
	if err != nil {
		return nil, err
	}
	for _, origin := range table.Origins(at.Mountpoint) {
		written, ok := p.roots.Written(origin)
		if !ok {
			continue
		}
		in, _ := table.Containing(origin)
		source, err := p.hostPath(ctx, written, at)
		if err != nil {
			return nil, err
		}
		return specFor(volumeName, source, at.Flags, in.Flags), nil
	}
	return nil, fmt.Errorf("%w: %s: %w", volume.ErrUncertain, mountPath, errNoOrigin)
}

// hostPath is the source with a type if it is one for which the mount has another
// option. What cannot be looked at has none; what does not answer is an error.
func (p *Plugin) hostPath(ctx context.Context, written string, at mount.Info) (*v1.HostPathVolumeSource, error) {
	source := &v1.HostPathVolumeSource{Path: written}
	if at.Flags&mount.NoDev != 0 {
		return source, nil
	}
	mode, err := p.look(ctx, at.Mountpoint)
	if errors.Is(err, errNoAnswer) {
		return nil, err
	}
	for _, kind := range []v1.HostPathType{v1.HostPathCharDev, v1.HostPathBlockDev} {
		if err == nil && wanted[kind](mode) {
			source.Type = &kind
		}
	}
	return source, nil
}

func specFor(name string, source *v1.HostPathVolumeSource, flags, there mount.Flags) *volume.Spec {
	readOnly := flags&mount.ReadOnly != 0
	usual := there | mount.NoSUID | mount.NoDev
	if source.Type != nil {
		usual &^= mount.NoDev
	}
	if flags|mount.ReadOnly == usual|mount.ReadOnly && (readOnly || there&mount.ReadOnly == 0) {
		spec := volume.NewSpecFromVolume(&v1.Volume{Name: name, VolumeSource: v1.VolumeSource{HostPath: source}})
		spec.ReadOnly = readOnly
		return spec
	}
	mode := v1.PersistentVolumeFilesystem
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: source},
			VolumeMode:             &mode,
			MountOptions:           util.BindOptions(flags, there),
		},
	}, readOnly)
}
