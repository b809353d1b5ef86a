package local

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// errNoOrigin: the directory behind a mount is not to be found below the roots.
var errNoOrigin = errors.New("what is mounted there is not below one of the directories where local volumes may be")

// ConstructVolumeSpec recovers the path of the directory that is mounted at
// mountPath, and its flags as mount options, from the mount table. If nothing is
// mounted there the error wraps [volume.ErrNotMounted]; if the directory cannot be
// found below the roots, [volume.ErrUncertain]: something is mounted.
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (*volume.Spec, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	list, err := p.config.Mounter.List()
	if err != nil {
		return nil, err
	}
	table := mount.Table(list)
	at, ok := table.At(mountPath)
	if !ok {
		return nil, fmt.Errorf("%w: %s", volume.ErrNotMounted, mountPath)
	}
	path, ok := p.origin(table, mountPath)
	if !ok {
		return nil, fmt.Errorf("%w: %s: %w", volume.ErrUncertain, mountPath, errNoOrigin)
	}
	return specFor(volumeName, path, at.Flags), nil
}

// origin returns the path that a volume at mountPath has in its specification.
func (p *Plugin) origin(table mount.Table, mountPath string) (string, bool) {
	for _, origin := range table.Origins(mountPath) {
		if path, ok := p.written(origin); ok {
			return path, true
		}
	}
	return "", false
}

// specFor is a specification that would be set up with just these flags.
func specFor(name, path string, flags mount.Flags) *volume.Spec {
	mode := v1.PersistentVolumeFilesystem
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			VolumeMode:             &mode,
		},
	}
	// The first word is "ro" or "rw", which the specification says otherwise.
	_, options, _ := strings.Cut(flags.String(), ",")
	if options != "" {
		pv.Spec.MountOptions = strings.Split(options, ",")
	}
	return volume.NewSpecFromPersistentVolume(pv, flags&mount.ReadOnly != 0)
}
