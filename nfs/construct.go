package nfs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConstructVolumeSpec recovers the export that is mounted at mountPath from the
// mount table: the server, the path, read-only, and the options as the kernel's
// client has them, those included that the server and the client have settled on.
// The specification is that of a persistent volume, since one in a pod has no
// options; both have the same name by GetVolumeName.
//
// The kernel names the directory that is mounted as it is called now: a client that has
// the directory above it mounted, too, and renames it, renames the volume that is found
// here.
//
// A path that is not below the host's root is a [*field.Error]. If nothing is
// mounted there the error wraps [volume.ErrNotMounted]; if something else than NFS
// is, [volume.ErrUncertain].
func (p *Plugin) ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (*volume.Spec, error) {
	if err := volume.ValidatePathComponent(field.NewPath("volumeName"), volumeName); err != nil {
		return nil, err
	}
	if p.host == nil {
		return nil, errNotInitialised
	}
	at, _, err := p.mounts.At(ctx, mountPath)
	if err != nil {
		return nil, err
	}
	if !isNFS(at) {
		return nil, fmt.Errorf("%w: what is mounted on %s is no NFS export but %s", volume.ErrUncertain, at.Mountpoint, at.FSType)
	}
	s, err := parseMountSource(at.Source)
	if err != nil {
		return nil, fmt.Errorf("%w: what is mounted on %s: %w", volume.ErrUncertain, at.Mountpoint, err)
	}
	return specFor(volumeName, s, at), nil
}

func specFor(name string, s source, at mount.Info) *volume.Spec {
	mode, readOnly := v1.PersistentVolumeFilesystem, at.Flags&mount.ReadOnly != 0
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{
				NFS: &v1.NFSVolumeSource{Server: s.server, Path: s.path, ReadOnly: readOnly},
			},
			VolumeMode:   &mode,
			MountOptions: slices.Concat(flagsOf(at.Flags), optionsOf(at.SuperOptions)),
		},
	}
	return volume.NewSpecFromPersistentVolume(pv, readOnly)
}

// flagsOf are options with which just these flags come of a mount. Read-only is
// said by the source.
func flagsOf(flags mount.Flags) []string {
	options := strings.Split(flags.String(), ",")[1:]
	if flags&mount.NoSUID == 0 {
		options = append(options, "suid")
	}
	if flags&mount.NoDev == 0 {
		options = append(options, "dev")
	}
	return options
}

// optionsOf leaves out what the kernel prints of itself, and what it was told of the
// server besides the source.
func optionsOf(printed []string) []string {
	var options []string
	for _, option := range printed {
		if option == "sec=null" { // so the kernel calls it
			option = "sec=none"
		}
		if check(option) == "" {
			options = append(options, option)
		}
	}
	return options
}
