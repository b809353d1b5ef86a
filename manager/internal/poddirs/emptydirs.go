package poddirs

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// A Disk reads and removes directories, and removes files.
type Disk struct {
	// NamesIn returns no names for a missing directory.
	NamesIn func(dir string) ([]string, error)
	Rmdir   func(dir string) error
	// RemoveMountPoint removes what a subpath was mounted on: an empty directory or an empty regular
	// file, on which nothing is mounted.
	RemoveMountPoint func(name string) error
	// RemoveNote removes the files of the note about a volume from a directory, see package podvolume.
	RemoveNote func(dir string) error
}

// RemoveEmptyDirs removes the empty directories of pods, as a killed operation leaves them, the notes
// about volumes without a directory, and in a pod without volumes the empty files where parts of its
// volumes were mounted. All else stays: the functions of the disk decide what is empty.
func RemoveEmptyDirs(root string, s Disk) {
	pods := filepath.Join(root, "pods")
	for _, pod := range s.names(pods) {
		if pod == "lost+found" {
			continue // fsck needs it, in a file system that is mounted for the pods
		}
		dir := filepath.Join(pods, pod)
		s.remove(dir, func(kind string) bool {
			dir := filepath.Join(dir, kind)
			switch kind {
			case "volumes", "volumeDevices":
				return s.remove(dir, func(plugin string) bool { return s.isRemoved(filepath.Join(dir, plugin)) })
			case "plugins":
				volumes, err := s.volumeNames(filepath.Dir(dir))
				return s.remove(dir, func(plugin string) bool {
					dir := filepath.Join(dir, plugin)
					return s.remove(dir, func(name string) bool {
						dir := filepath.Join(dir, name)
						// The tear-down of a volume removes its note. A kubelet notes a volume of files as an emptyDir.
						if err != nil || slices.Contains(volumes, name) || slices.Contains(volumes, strings.TrimPrefix(name, "wrapped_")) {
							return s.isRemoved(dir)
						}
						return s.RemoveNote(dir) == nil && s.isRemoved(dir)
					})
				})
			case Subpaths:
				volumes, err := s.volumeNames(filepath.Dir(dir))
				hasVolumes := err != nil || len(volumes) > 0
				return s.remove(dir, func(volume string) bool {
					dir := filepath.Join(dir, volume)
					return s.remove(dir, func(container string) bool {
						dir := filepath.Join(dir, container)
						if hasVolumes { // the tear-down of a volume removes its subpaths
							return s.isRemoved(dir)
						}
						return s.remove(dir, func(index string) bool {
							return isGone(s.RemoveMountPoint(filepath.Join(dir, index)))
						})
					})
				})
			}
			return false
		})
	}
}

// volumeNames returns the names of the volumes that have a directory or a device in the directory of a pod.
func (s Disk) volumeNames(dir string) (names []string, err error) {
	for _, kind := range []string{"volumes", "volumeDevices"} {
		plugins, failed := s.NamesIn(filepath.Join(dir, kind))
		err = errors.Join(err, failed)
		for _, plugin := range plugins {
			volumes, failed := s.NamesIn(filepath.Join(dir, kind, plugin))
			names, err = append(names, volumes...), errors.Join(err, failed)
		}
	}
	return names, err
}

// remove removes a directory after its entries, of which each reports whether it is gone. A
// directory in which an entry stays is not empty: removing it would fail.
func (s Disk) remove(dir string, entry func(name string) bool) bool {
	all := true
	for _, name := range s.names(dir) {
		all = entry(name) && all
	}
	return all && s.isRemoved(dir)
}

// names returns the names in a directory; none if it is unreadable: such a directory is not empty, and removing it fails.
func (s Disk) names(dir string) []string {
	names, _ := s.NamesIn(dir)
	return names
}

// isRemoved removes a directory, and reports whether it is gone.
func (s Disk) isRemoved(dir string) bool {
	return isGone(s.Rmdir(dir))
}

// isGone reports whether a removal with this error has left nothing.
func isGone(err error) bool { return err == nil || errors.Is(err, fs.ErrNotExist) }
