package local

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errNoOrigin: the directory behind a mount is not to be found below the roots.
var errNoOrigin = errors.New("what is mounted there is not below one of the directories where local volumes may be")

// ConstructVolumeSpec recovers the path of the directory that is mounted at
// mountPath, and its flags as mount options, from the mount table: all of them, so
// that a SetUp with the specification finds the mount as asked whatever the flags
// are where the directory comes from.
//
// A path that is not below the host's root is a [*field.Error]. If nothing is
// mounted there the error wraps [volume.ErrNotMounted]; if something is, and the
// directory cannot be found below the roots (it may have been removed), or the
// path does not lead to it as it is written, [volume.ErrUncertain].
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
	if shared, name, ok := p.deviceOrigin(table, at.Mountpoint); ok {
		return p.deviceSpec(volumeName, name, at, shared)
	}
	source, there, ok := p.origin(table, at.Mountpoint)
	if !ok {
		return nil, fmt.Errorf("%w: %s: %w", volume.ErrUncertain, mountPath, errNoOrigin)
	}
	return specFor(volumeName, source, util.BindOptions(at.Flags, there), at.Flags&mount.ReadOnly != 0), nil
}

// origin returns the path that a volume at mountPath has in its specification,
// and the flags of the mount in which that path is.
func (p *Plugin) origin(table mount.Table, mountPath string) (path string, flags mount.Flags, ok bool) {
	for _, origin := range table.Origins(mountPath) {
		if path, ok := p.written(origin); ok {
			in, _ := table.Containing(origin)
			return path, in.Flags, true
		}
	}
	return "", 0, false
}

// deviceOrigin returns the mount of a device from which the one at mountPath comes,
// and the volume's name there.
func (p *Plugin) deviceOrigin(table mount.Table, mountPath string) (shared mount.Info, name string, ok bool) {
	dir, err := p.host.PluginDir(PluginName)
	if err != nil {
		return mount.Info{}, "", false
	}
	for _, origin := range table.Origins(mountPath) {
		rest, is := below(path.Join(dir, mountsDir), origin)
		if shared, ok := table.At(origin); is && ok && !strings.Contains(rest, "/") {
			return shared, rest, true
		}
	}
	return mount.Info{}, "", false
}

// deviceSpec recovers what is on a device: by the record that was made of it, or by
// what the mount table says it is.
func (p *Plugin) deviceSpec(volumeName, name string, at, shared mount.Info) (*volume.Spec, error) {
	options := util.BindOptions(at.Flags, shared.Flags)
	if shared.Flags&mount.ReadOnly != 0 {
		options = append(options, "ro")
	}
	rec, err := p.records.read(name)
	if err != nil || rec == nil {
		path, ok := p.written(shared.Source)
		if !ok {
			return nil, fmt.Errorf("%w: %s: %w", volume.ErrUncertain, at.Mountpoint, errors.Join(errNoOrigin, err))
		}
		rec = &record{Path: path, FSType: shared.FSType}
	}
	spec := specFor(volumeName, rec.Path, options, at.Flags&mount.ReadOnly != 0)
	spec.PersistentVolume.UID = rec.UID
	spec.PersistentVolume.Spec.Local.FSType = &rec.FSType
	return spec, nil
}

func specFor(name, path string, options []string, readOnly bool) *volume.Spec {
	mode := v1.PersistentVolumeFilesystem
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			VolumeMode:             &mode,
			MountOptions:           options,
		},
	}
	return volume.NewSpecFromPersistentVolume(pv, readOnly)
}
