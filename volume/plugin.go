package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A VolumePlugin makes one kind of volume usable on a node.
//
// Methods are idempotent and safe for concurrent use. What a plugin can do
// besides is in further interfaces, found by [As].
type VolumePlugin interface {
	// Init gives the plugin its host. The [VolumePluginMgr] calls it once, before
	// anything else.
	Init(host VolumeHost) error
	// GetPluginName returns the plugin's name, unique and namespaced:
	// "kubernetes.io/nfs". It asks nothing and needs no Init.
	GetPluginName() string
	// GetVolumeName returns a name that is equal for specifications that the plugin
	// knows to share their backing storage, and different for others. It is no
	// path component.
	GetVolumeName(spec *Spec) (string, error)
	// CanSupport reports whether the volume is of the plugin's kind. It does not
	// fail; a specification that is of the kind but invalid is refused by NewMounter.
	CanSupport(spec *Spec) bool
	// NewMounter returns the mounter of the volume for the pod. It checks the
	// specification and changes nothing.
	NewMounter(spec *Spec, pod *v1.Pod) (Mounter, error)
	// NewUnmounter returns the unmounter of a volume, which is named by
	// [Spec.Name]. It changes nothing.
	NewUnmounter(volumeName string, podUID types.UID) (Unmounter, error)
	// ConstructVolumeSpec recovers the specification of the volume that is up at
	// mountPath from what is on disk and in the mount table, after a restart. If
	// nothing is up there the error wraps [ErrNotMounted]; if something is, and it
	// cannot be told what, [ErrUncertain].
	ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (*Spec, error)
}

// A VolumeHost says where volumes live on a node. [NewHost] is the kubelet's
// layout. The paths it returns have no symbolic link in them, and names that
// are no single path component are refused with an error.
type VolumeHost interface {
	NodeName() types.NodeName
	// Root is the directory that holds all the others.
	Root() string
	// OwnDirs returns the directories below Root in which all the others are. What
	// is in them is the pods' and the plugins': a plugin that is told by a
	// specification which directory to mount refuses them, what is in them and
	// what they are in.
	OwnDirs() []string
	// PodVolumeDir returns the directory of a pod's volume. It need not exist.
	PodVolumeDir(podUID types.UID, pluginName, volumeName string) (string, error)
	// PodVolumeDeviceDir returns the directory of a pod's block volumes.
	PodVolumeDeviceDir(podUID types.UID, pluginName string) (string, error)
	// PodPluginDir returns the directory that a plugin has to itself for a pod: what
	// it notes about the pod's volumes is there, where the pod does not see it.
	PodPluginDir(podUID types.UID, pluginName string) (string, error)
	// PluginDir returns the directory that a plugin has to itself.
	PluginDir(pluginName string) (string, error)
}
