package manager

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// A layout is what there is in the directories of pods.
type layout struct {
	volumes []foundVolume
	strays  []Leftover // what is no volume, and may hide one or be a part of one
}

var (
	errNoDirectory = errors.New("it is not a directory")
	errPartOfNone  = errors.New("containers have it of a volume, and no volume of the pod is there")
)

// findVolumes reads the names of directories and looks at none of what they name: a
// server that does not answer may be behind it.
func findVolumes(root string, namesIn func(dir string) ([]string, error)) (layout, error) {
	var l layout
	pods, err := namesIn(filepath.Join(root, "pods"))
	for _, pod := range pods {
		err = errors.Join(err, l.addPod(types.UID(pod), filepath.Join(root, "pods", pod), namesIn))
	}
	return l, err
}

func (l *layout) addPod(pod types.UID, base string, namesIn func(dir string) ([]string, error)) (err error) {
	names := func(dir string) []string {
		names, failed := namesIn(dir)
		if errors.Is(failed, errNoDirectory) {
			l.strays = append(l.strays, Leftover{Path: dir, Pod: pod, Err: failed})
			return nil
		}
		err = errors.Join(err, failed)
		return names
	}
	before := len(l.volumes)
	for _, kind := range []string{"volumes", "volumeDevices"} {
		for _, plugin := range names(filepath.Join(base, kind)) {
			dir := filepath.Join(base, kind, plugin)
			for _, name := range names(dir) {
				l.volumes = append(l.volumes, foundVolume{pod, plugin, name, filepath.Join(dir, name), kind == "volumeDevices"})
			}
		}
	}
	if len(l.volumes) > before {
		return err // parts go with them
	}
	for _, outer := range names(filepath.Join(base, subpaths)) {
		l.strays = append(l.strays, Leftover{Path: filepath.Join(base, subpaths, outer), Pod: pod, Err: errPartOfNone})
	}
	return err
}

// straysOf returns what is of such pods.
func (l layout) straysOf(are func(types.UID) bool) []Leftover {
	return slices.DeleteFunc(slices.Clone(l.strays), func(left Leftover) bool { return !are(left.Pod) })
}

// dropParts: with the pod's volume all has gone that was no other's. The caller holds mu.
func (l *loop) dropParts(pod types.UID) {
	isPart := func(left Leftover) bool { return left.Pod == pod && errors.Is(left.Err, errPartOfNone) }
	if slices.ContainsFunc(l.leftovers, isPart) {
		l.setLeftovers(slices.DeleteFunc(slices.Clone(l.leftovers), isPart))
	}
}

// isNobodys reports whether nothing of a pod is wanted, or known. The caller holds mu.
func (m *Manager) isNobodys(pod types.UID) bool {
	return m.want.pods[pod] == nil && m.have.dirs[pod] == nil
}

// namesOf returns what is in a directory, sorted. One that is missing has nothing in it;
// what is none is errNoDirectory.
func namesOf(dir string) ([]string, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|openDirectory, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case isNotDirectory(err):
		if _, err := os.Lstat(dir); err != nil {
			return nil, nil // nor is what it would be in
		}
		return nil, errNoDirectory
	case err != nil:
		return nil, err
	}
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, errors.Join(err, f.Close())
}

// namesIn is namesOf for which what is no directory has nothing in it.
func namesIn(dir string) ([]string, error) {
	names, err := namesOf(dir)
	if errors.Is(err, errNoDirectory) {
		return nil, nil
	}
	return names, err
}
