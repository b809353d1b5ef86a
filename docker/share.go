package docker

import (
	"path"
	"strings"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NFSShare is a function for Config.Share with the plugin of package nfs: "server:/path", with an IPv6 address in
// brackets.
func NFSShare(share string) (v1.PersistentVolumeSource, error) {
	server, directory, ok := strings.Cut(share, ":/")
	if !ok || server == "" {
		return v1.PersistentVolumeSource{}, volume.Invalid(field.NewPath("options").Key(optionShare), share, "must be server:/path")
	}
	return v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: server, Path: "/" + directory}}, nil
}

// LocalShare is a function for Config.Share with the plugin of package local: the absolute path of a directory, which
// must be in one of the roots of the plugin.
func LocalShare(share string) (v1.PersistentVolumeSource, error) {
	if !path.IsAbs(share) {
		return v1.PersistentVolumeSource{}, volume.Invalid(field.NewPath("options").Key(optionShare), share, "must be an absolute path")
	}
	return v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: share}}, nil
}
