package container

import (
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// Source returns the path behind a volume that shows a part of this node.
func Source(spec *volume.Spec) (path string, ok bool) {
	switch {
	case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.Local != nil:
		return spec.PersistentVolume.Spec.Local.Path, true
	case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.HostPath != nil:
		return spec.PersistentVolume.Spec.HostPath.Path, true
	case spec.Volume != nil && spec.Volume.HostPath != nil:
		return spec.Volume.HostPath.Path, true
	}
	return "", false
}

// Export returns the NFS source of a volume, nil if it has another.
func Export(spec *volume.Spec) *v1.NFSVolumeSource {
	switch {
	case spec.PersistentVolume != nil && spec.PersistentVolume.Spec.NFS != nil:
		return spec.PersistentVolume.Spec.NFS
	case spec.Volume != nil:
		return spec.Volume.NFS
	}
	return nil
}

// hasContent reports whether the plugin writes the volume's files for the pod.
func hasContent(spec *volume.Spec) bool {
	v := spec.Volume
	return v != nil && (v.ConfigMap != nil || v.Secret != nil || v.DownwardAPI != nil || v.Projected != nil)
}
