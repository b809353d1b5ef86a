package volume

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A VolumePlugin makes one kind of volume usable on a node.
//
// Methods are idempotent and safe for concurrent use. Further operations are abilities,
// which [As] returns.
type VolumePlugin interface {
	// Init gives the plugin its host. The [VolumePluginMgr] calls it once, before any other
	// method. It returns soon after ctx ends.
	//
	// Methods without a context touch memory only: access to a file system or a server
	// happens in calls of the values that they return.
	Init(ctx context.Context, host VolumeHost) error
	// GetPluginName returns the plugin's name, unique and namespaced: "kubernetes.io/nfs". It
	// works before Init.
	GetPluginName() string
	// GetVolumeName returns a name that is equal for specifications that, to the plugin's
	// knowledge, share their storage, and different for others. It is no path component.
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
	// ConstructVolumeSpec recovers the volume that is set up at mountPath from files and the
	// mount table, after a restart. If no volume is set up there the error wraps
	// [ErrNotMounted]; if one is and its specification cannot be recovered, [ErrUncertain].
	ConstructVolumeSpec(ctx context.Context, volumeName, mountPath string) (ReconstructedVolume, error)
}

// A VolumeHost is the layout of volumes on a node. [NewHost] returns the kubelet's
// layout. The returned paths have no symbolic links, and a name that
// is no single path component is an error.
type VolumeHost interface {
	NodeName() types.NodeName
	// Root returns the directory that contains the others, except TargetDirs.
	Root() string
	// OwnDirs returns the directories of the pods and the plugins, below Root, and
	// TargetDirs. A plugin whose specifications name the directory to mount refuses these
	// directories, their content and their parents.
	OwnDirs() []string
	// TargetDirs returns the directories outside Root in which SetUpAt and TearDownAt may
	// mount and unmount volumes, without symbolic links in their paths. None: only paths
	// below Root are accepted.
	TargetDirs() []string
	// PodVolumeDir returns the directory of a pod's volume. It need not exist.
	PodVolumeDir(podUID types.UID, pluginName, volumeName string) (string, error)
	// PodVolumeDeviceDir returns the directory of a pod's block volumes.
	PodVolumeDeviceDir(podUID types.UID, pluginName string) (string, error)
	// PodPluginDir returns a plugin's own directory for a pod. It holds the plugin's notes
	// about the pod's volumes, where the pod does not see them.
	PodPluginDir(podUID types.UID, pluginName string) (string, error)
	// PluginDir returns a plugin's own directory.
	PluginDir(pluginName string) (string, error)
}
