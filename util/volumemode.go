package util

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/volume"
)

// GetVolumeMode returns whether the volume is a file system or a block device.
// What does not say is a file system, and so is every volume that is written in
// a pod. A specification that [volume.Spec.Validate] refuses is refused with its
// error, and a mode that is neither with a [*field.Error].
func GetVolumeMode(spec *volume.Spec) (v1.PersistentVolumeMode, error) {
	if err := spec.Validate(); err != nil {
		return "", err
	}
	if spec.PersistentVolume == nil || spec.PersistentVolume.Spec.VolumeMode == nil {
		return v1.PersistentVolumeFilesystem, nil
	}
	mode := *spec.PersistentVolume.Spec.VolumeMode
	switch mode {
	case v1.PersistentVolumeFilesystem, v1.PersistentVolumeBlock:
		return mode, nil
	}
	return "", field.NotSupported(field.NewPath("spec", "persistentVolume", "spec", "volumeMode"),
		shortMode(mode), []v1.PersistentVolumeMode{v1.PersistentVolumeBlock, v1.PersistentVolumeFilesystem})
}

// CheckVolumeModeFilesystem reports whether the volume is a file system. The
// errors are those of [GetVolumeMode].
func CheckVolumeModeFilesystem(spec *volume.Spec) (bool, error) {
	mode, err := GetVolumeMode(spec)
	return err == nil && mode == v1.PersistentVolumeFilesystem, err
}

// shortMode keeps hostile text from filling a log.
func shortMode(mode v1.PersistentVolumeMode) v1.PersistentVolumeMode {
	const limit = 64
	if len(mode) <= limit {
		return mode
	}
	return mode[:limit] + "..."
}
