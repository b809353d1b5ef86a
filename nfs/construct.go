package nfs

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/optionlist"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ConstructVolumeSpec recovers the export mounted at mountPath from the mount table:
// server, path, read-only, and the options that the kernel's client prints, among them
// those that server and client have negotiated. The specification is that of a
// persistent volume, since a pod's own NFS volume has no options; both have the same name
// by GetVolumeName.
//
// The kernel names the mounted directory by its current name: if a client renames a
// directory above it, ConstructVolumeSpec returns the new path.
//
// A path that is not below the host's root is a [*field.Error]. The error wraps
// [volume.ErrNotMounted] if nothing is mounted there, [volume.ErrUncertain] if the mount
// is not NFS.
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
	at, _, err := p.mounts.At(ctx, mountPath)
	if err != nil {
		return nil, err
	}
	if !isNFS(at) {
		return nil, volume.AsUncertain(fmt.Errorf("mount point %s: file system %s, expected NFS", at.Mountpoint, at.FSType))
	}
	s, err := parseMountSource(at.Source)
	if err != nil {
		return nil, volume.AsUncertain(fmt.Errorf("mount point %s: %w", at.Mountpoint, err))
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

// flagsOf returns the options that set exactly these mount flags. Read-only is left out:
// the source of the specification says it.
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

// optionsOf returns the printed options without those that the kernel adds by itself, those
// that repeat the server's address, and SELinux labels, which the mounter may not allow.
func optionsOf(printed []string) []string {
	var options []string
	for _, option := range printed {
		if option == "sec=null" { // the kernel's name of sec=none
			option = "sec=none"
		}
		if check(option) == "" && !optionlist.IsLabel(keyOf(option)) {
			options = append(options, option)
		}
	}
	return options
}
