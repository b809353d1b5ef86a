package util

import (
	"strings"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// GetUniqueVolumeName returns the name that Kubernetes gives to a volume on a node, such as
// in Node.Status.VolumesInUse: the plugin's name, a slash, and the volume's name, which
// GetVolumeName of the plugin returns. All pods that use the volume share the name.
func GetUniqueVolumeName(pluginName, volumeName string) v1.UniqueVolumeName {
	return v1.UniqueVolumeName(pluginName + "/" + volumeName)
}

// GetUniqueVolumeNameWithPod returns the unique name of a volume that belongs to one pod: one
// that is neither attached nor mounted once for all pods.
func GetUniqueVolumeNameWithPod(podUID types.UID, pluginName, volumeName string) v1.UniqueVolumeName {
	return GetUniqueVolumeName(pluginName, string(podUID)+"-"+volumeName)
}

// SplitUniqueName is the reverse of [GetUniqueVolumeName] for plugins named "prefix/name",
// as all of Kubernetes are. The volume's name may contain slashes. For a name of
// [GetUniqueVolumeNameWithPod] volumeName begins with the pod's UID and a "-". Any other
// text is refused with a [*field.Error].
func SplitUniqueName(name v1.UniqueVolumeName) (pluginName, volumeName string, err error) {
	path := field.NewPath("uniqueVolumeName")
	parts := strings.SplitN(string(name), "/", 3)
	if len(parts) != 3 || parts[2] == "" {
		return "", "", volume.Invalid(path, string(name), `must be "prefix/plugin/volume"`)
	}
	pluginName = parts[0] + "/" + parts[1]
	if _, err := volume.EscapeQualifiedName(pluginName); err != nil {
		return "", "", volume.Invalid(path, string(name), "must begin with a plugin's name")
	}
	return pluginName, parts[2], nil
}
