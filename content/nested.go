package content

import (
	"cmp"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A containerMounts is a container's list of volume mounts and its field in the pod.
type containerMounts struct {
	at     *field.Path
	mounts []v1.VolumeMount
}

func containersOf(pod *v1.Pod) (all []containerMounts) {
	at := field.NewPath("pod", "spec")
	for i, c := range pod.Spec.InitContainers {
		all = append(all, containerMounts{at.Child("initContainers").Index(i), c.VolumeMounts})
	}
	for i, c := range pod.Spec.Containers {
		all = append(all, containerMounts{at.Child("containers").Index(i), c.VolumeMounts})
	}
	for i, c := range pod.Spec.EphemeralContainers {
		all = append(all, containerMounts{at.Child("ephemeralContainers").Index(i), c.VolumeMounts})
	}
	return all
}

// mountPoints returns the paths in a volume at which containers of the pod mount other
// volumes. A container runtime cannot create them: the volume is read-only for it.
//
// A mount of a part of the volume (subPath) is left out: it shows one generation of the
// files, which no update reaches.
func mountPoints(pod *v1.Pod, volumeName string) ([]atomicdir.MountPoint, error) {
	files := newMountFiles(pod)
	var all []atomicdir.MountPoint
	for _, c := range containersOf(pod) {
		for _, n := range c.nestedIn(volumeName) {
			var refused *atomicdir.InputError
			if err := atomicdir.CheckMountPoint(n.name); errors.As(err, &refused) {
				at := c.at.Child("volumeMounts").Index(n.index).Child("mountPath")
				return nil, volume.Invalid(at, c.mounts[n.index].MountPath,
					"a mount point in volume "+volumeName+": "+refused.Reason)
			}
			all = append(all, atomicdir.MountPoint{Name: n.name, File: files.isFile(c.mounts[n.index])})
		}
	}
	return directoriesFirst(all), nil
}

// directoriesFirst drops files of one container that are directories of another.
func directoriesFirst(all []atomicdir.MountPoint) []atomicdir.MountPoint {
	dirs := map[string]bool{}
	for _, p := range all {
		if !p.File {
			dirs[p.Name] = true
		}
		for dir := path.Dir(p.Name); dir != "."; dir = path.Dir(dir) {
			dirs[dir] = true
		}
	}
	return slices.DeleteFunc(all, func(p atomicdir.MountPoint) bool { return p.File && dirs[p.Name] })
}

// A nested is a mount inside another mount.
type nested struct {
	index int    // in the container's list
	name  string // relative to the outer mount
}

// nestedIn returns the mounts whose innermost enclosing mount is of the volume. It takes the
// time of sorting: a pod can have tens of thousands of mounts.
func (c containerMounts) nestedIn(volumeName string) (all []nested) {
	var around []place // the enclosing mounts, each inside the one before
	for _, p := range c.places(volumeName) {
		for len(around) > 0 && !around[len(around)-1].contains(p.path) {
			last := around[len(around)-1]
			p.outer = p.outer || last.outer && last.path == p.path
			around = around[:len(around)-1]
		}
		if len(around) > 0 && around[len(around)-1].outer {
			all = append(all, nested{p.index, p.path[len(around[len(around)-1].prefix()):]})
		}
		around = append(around, p)
	}
	return all
}

// A place is the path of a mount in a container.
type place struct {
	index int
	path  string
	outer bool // a mount of the volume whose mount points are collected
}

// places returns the paths of all mounts, each directly before the paths inside it.
func (c containerMounts) places(volumeName string) []place {
	all := make([]place, len(c.mounts))
	for i, m := range c.mounts {
		outer := m.Name == volumeName && m.SubPath == "" && m.SubPathExpr == ""
		all[i] = place{i, path.Join("/", m.MountPath), outer}
	}
	slices.SortStableFunc(all, func(a, b place) int { return comparePaths(a.path, b.path) })
	return all
}

func (p place) prefix() string { return strings.TrimSuffix(p.path, "/") + "/" }

// contains reports whether a path is strictly below the place.
func (p place) contains(name string) bool {
	return name != p.path && strings.HasPrefix(name, p.prefix())
}

// comparePaths sorts by components, for which "/" comes before all other bytes.
func comparePaths(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}
