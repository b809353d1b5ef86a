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

// errNoOrigin reports a mount whose content is not found below the roots.
var errNoOrigin = errors.New("the mounted path is not below one of the plugin's roots")

// ConstructVolumeSpec recovers the path of the mount at mountPath from the record of SetUp, also if
// the file was renamed or removed since, or from the mount table: as a pod's own volume, or, if the
// mount has other flags than such a volume, as a persistent one with mount options. Of the type only
// a device type is recovered.
//
// A path that is not below the host's root is a [*field.Error]. If nothing is mounted there
// the error wraps [volume.ErrNotMounted]; if the mounted file cannot be found below the
// roots, and there is no such record, [volume.ErrUncertain].
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (volume.ReconstructedVolume, error) {
	spec, err := p.constructSpec(ctx, volumeName, mountPath)
	return volume.ReconstructedVolume{Spec: spec}, err
}

func (p *Plugin) constructSpec(ctx context.Context, volumeName, mountPath string) (*volume.Spec, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return nil, err
	}
	if p.host == nil {
		return nil, errNotInitialised
	}
	at, view, err := p.mounts.At(ctx, mountPath)
	if err != nil {
		return nil, err
	}
	noted, err := p.readNote(ctx, mountPath)
	if err != nil && ctx.Err() != nil {
		return nil, noAnswerError(ctx)
	}
	written, origin, err := p.origin(ctx, at, view, noted)
	if err != nil {
		return nil, err
	}
	in, _ := view.Containing(origin)
	source, err := p.hostPath(ctx, written, at)
	if err != nil {
		return nil, err
	}
	return specFor(volumeName, source, at.Flags, in.Flags), nil
}

// origin returns the path in the specification of the mounted volume, and the path that was mounted.
// A note counts if the mount table has its path for the mount, or if it is certainly about that mount.
func (p *Plugin) origin(ctx context.Context, at mount.Info, view *mount.View, noted note) (written, origin string, err error) {
	byNote, hasNote := p.writtenFor(noted)
	byTable := ""
	for candidate := range view.Origins(at.Mountpoint) {
		if hasNote && candidate == noted.Source {
			return byNote, candidate, nil
		}
		if found, ok := p.roots.Written(candidate); ok && byTable == "" {
			byTable, origin = found, candidate
		}
		if byTable != "" && !hasNote {
			break
		}
	}
	if hasNote {
		if now, is, err := p.existingNote(ctx, at.Mountpoint, noted); is || err != nil {
			return byNote, now.Source, err
		}
	}
	if byTable == "" {
		return "", "", volume.AsUncertain(fmt.Errorf("%s: %w", at.Mountpoint, errNoOrigin))
	}
	return byTable, origin, nil
}

// hostPath returns the source, with a type if the file is a device, for which the mount has
// another option. A file that cannot be inspected has no type; a file system that does not
// answer is an error.
func (p *Plugin) hostPath(ctx context.Context, written string, at mount.Info) (*v1.HostPathVolumeSource, error) {
	source := &v1.HostPathVolumeSource{Path: written}
	if at.Flags&mount.NoDev != 0 {
		return source, nil
	}
	there, err := p.lookInTime(ctx, at.Mountpoint)
	if errors.Is(err, errNoAnswer) {
		return nil, err
	}
	for _, kind := range []v1.HostPathType{v1.HostPathCharDev, v1.HostPathBlockDev} {
		if err == nil && typeChecks[kind](there.mode) {
			source.Type = &kind
		}
	}
	return source, nil
}

// specFor returns the volume of a pod if the mount has the flags of a bind mount without options,
// otherwise a persistent volume with the options that the flags require. The flags there are those
// of the mount that contains the source.
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
