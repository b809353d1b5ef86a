package podvolume

import (
	"context"
	"strings"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// viewSuffix ends the name of a view's directory. No Kubernetes name has a tilde, and with
// the longest of them the name is still one of a file.
const viewSuffix = "~r"

// Views are the names of a pod by which it only reads a claim that it writes to by another
// name. All volumes of the pod count, used by a container or not: an ephemeral container may
// use one later, and a volume that is set up stays. The zero value has none.
type Views struct {
	written map[string]bool // the claims that the pod writes to; nil if it reads none
}

// ViewsOf returns the views of a pod, which may be nil. Its cost is linear in the number of
// the pod's volumes, that of the methods is constant.
func ViewsOf(pod *v1.Pod) Views {
	if pod == nil || !readsClaim(pod) {
		return Views{}
	}
	written := map[string]bool{}
	for i := range pod.Spec.Volumes { // by index: a volume is large, and a pod may have thousands
		switch v := &pod.Spec.Volumes[i]; {
		case v.PersistentVolumeClaim != nil:
			if !v.PersistentVolumeClaim.ReadOnly {
				written[v.PersistentVolumeClaim.ClaimName] = true
			}
		case v.Ephemeral != nil: // the claim is made for the pod, and named for both
			written[pod.Name+"-"+v.Name] = true
		}
	}
	return Views{written}
}

// readsClaim reports whether a claim of the pod is read-only by one of its names.
func readsClaim(pod *v1.Pod) bool {
	for i := range pod.Spec.Volumes {
		if c := pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ReadOnly {
			return true
		}
	}
	return false
}

// Has reports whether a volume of the pod is a view: a claim that is read-only by this name,
// and not by another.
func (s Views) Has(v *v1.Volume) bool {
	if v == nil || v.PersistentVolumeClaim == nil {
		return false
	}
	return v.PersistentVolumeClaim.ReadOnly && s.written[v.PersistentVolumeClaim.ClaimName]
}

// DirectoryName returns the name of the directory of the pod's volume v, see [ViewName].
func (s Views) DirectoryName(v *v1.Volume, spec *volume.Spec) string {
	if spec.IsBlock() || !s.Has(v) {
		return spec.Name()
	}
	return spec.Name() + viewSuffix
}

// Spec returns the specification by which the pod's volume v is set up. It is the given one,
// but for a view of a block device: the pod has one device by all names of the claim, and
// so the device is mapped to be written to. Containers get it read-only by a name that only
// reads from their runtime, as with the kubelet: without the permissions w and m. A read-only
// device on top of the other would have a page cache of its own, which is not told of writes.
func (s Views) Spec(v *v1.Volume, spec *volume.Spec) *volume.Spec {
	if !spec.IsBlock() || !s.Has(v) {
		return spec
	}
	return volume.NewSpecFromPersistentVolume(spec.PersistentVolume, false)
}

// ViewName returns the name of the directory of a pod's volume. It is [volume.Spec.Name],
// as the kubelet has it, but for a read-only view: a pod may name one claim twice, to read
// and to write, and then the name that only reads is a view of the volume in a directory of
// its own. A block device has one entry for all names, see [Views.Spec].
//
//	mounter, err := plugin.NewMounter(spec, pod)
//	if name := podvolume.ViewName(pod, v, spec); name != spec.Name() {
//		path, err := host.PodVolumeDir(pod.UID, plugin.GetPluginName(), name)
//		mounter = podvolume.MounterAt(mounter, path)
//	}
//
// Plugin.NewUnmounter takes the view's name, ConstructVolumeSpec the [ViewedName]. For many
// volumes of one pod [ViewsOf] looks at the pod once.
func ViewName(pod *v1.Pod, v *v1.Volume, spec *volume.Spec) string {
	return ViewsOf(pod).DirectoryName(v, spec)
}

// IsView reports whether a directory's name is that of a read-only view. A volume with
// such a name of its own is to be refused.
func IsView(directory string) bool { return strings.HasSuffix(directory, viewSuffix) }

// ViewedName returns the name of the volume that a directory is of, a view or not.
func ViewedName(directory string) string { return strings.TrimSuffix(directory, viewSuffix) }

// MounterAt returns a mounter that sets the volume up at a path: its GetPath and SetUp are
// of the path, by SetUpAt. GetMetrics is that of the mounter, at its own path.
func MounterAt(mounter volume.Mounter, path string) volume.Mounter {
	return mounterAt{mounter, path}
}

type mounterAt struct {
	volume.Mounter
	path string
}

func (m mounterAt) GetPath() string { return m.path }

func (m mounterAt) SetUp(ctx context.Context, args volume.MounterArgs) error {
	return m.SetUpAt(ctx, m.path, args)
}
