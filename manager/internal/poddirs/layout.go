package poddirs

import (
	"errors"
	"path/filepath"

	"k8s.io/apimachinery/pkg/types"
)

// A Layout is the contents of the directories of pods.
type Layout struct {
	Volumes []Volume
	Strays  []Stray // unrecognized paths that may hide a volume or be a part of one
}

// A Stray is an unrecognized path in the directory of a pod.
type Stray struct {
	Path string
	Pod  types.UID
	Err  error
}

var (
	errNoDirectory = errors.New("not a directory")
	// ErrOrphanSubpath is the error of a subpath mount that belongs to none of the pod's volumes.
	ErrOrphanSubpath = errors.New("subpath mount without a volume of the pod")
)

// Subpaths is a pod's directory with the subpath mounts of its containers.
const Subpaths = "volume-subpaths"

// FindVolumes reads the names of directories but does not access the volumes, because a
// server behind one may not respond.
func FindVolumes(root string, namesIn func(dir string) ([]string, error)) (Layout, error) {
	var l Layout
	pods, err := namesIn(filepath.Join(root, "pods"))
	for _, pod := range pods {
		err = errors.Join(err, l.addPod(types.UID(pod), filepath.Join(root, "pods", pod), namesIn))
	}
	return l, err
}

// addPod adds the directories of a pod.
func (l *Layout) addPod(pod types.UID, base string, namesIn func(dir string) ([]string, error)) (err error) {
	names := func(dir string) []string {
		names, failed := namesIn(dir)
		if errors.Is(failed, errNoDirectory) {
			l.Strays = append(l.Strays, Stray{dir, pod, failed})
			return nil
		}
		err = errors.Join(err, failed)
		return names
	}
	before := len(l.Volumes)
	for _, kind := range []string{"volumes", "volumeDevices"} {
		for _, plugin := range names(filepath.Join(base, kind)) {
			dir := filepath.Join(base, kind, plugin)
			for _, name := range names(dir) {
				l.Volumes = append(l.Volumes, Volume{Pod: pod, Plugin: plugin, Name: name, Path: filepath.Join(dir, name), Block: kind == "volumeDevices"})
			}
		}
	}
	if len(l.Volumes) > before {
		return err // subpaths are unmounted with their volumes
	}
	for _, outer := range names(filepath.Join(base, Subpaths)) {
		l.Strays = append(l.Strays, Stray{filepath.Join(base, Subpaths, outer), pod, ErrOrphanSubpath})
	}
	return err
}
