package poddirs

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// A Disk reads and removes directories, and removes files.
type Disk struct {
	NamesIn func(dir string) []string
	Rmdir   func(dir string) error
	// RemoveMountPoint removes what a subpath was mounted on: an empty directory or an empty regular
	// file, on which nothing is mounted.
	RemoveMountPoint func(name string) error
}

// RemoveEmptyDirs removes the empty directories of pods, as a killed operation leaves them, and in
// a pod without volumes the empty files where parts of its volumes were mounted. All else stays:
// the functions of the disk decide what is empty.
func RemoveEmptyDirs(root string, s Disk) {
	pods := filepath.Join(root, "pods")
	for _, pod := range s.NamesIn(pods) {
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
				return s.remove(dir, func(plugin string) bool {
					dir := filepath.Join(dir, plugin)
					return s.remove(dir, func(name string) bool { return s.isRemoved(filepath.Join(dir, name)) })
				})
			case Subpaths:
				hasVolumes := s.hasVolumes(filepath.Dir(dir))
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

// hasVolumes reports whether the directory of a pod has a directory or a device of a volume.
func (s Disk) hasVolumes(dir string) bool {
	for _, kind := range []string{"volumes", "volumeDevices"} {
		for _, plugin := range s.NamesIn(filepath.Join(dir, kind)) {
			if len(s.NamesIn(filepath.Join(dir, kind, plugin))) > 0 {
				return true
			}
		}
	}
	return false
}

// remove removes a directory after its entries, of which each reports whether it is gone. A
// directory in which an entry stays is not empty: removing it would fail.
func (s Disk) remove(dir string, entry func(name string) bool) bool {
	all := true
	for _, name := range s.NamesIn(dir) {
		all = entry(name) && all
	}
	return all && s.isRemoved(dir)
}

// isRemoved removes a directory, and reports whether it is gone.
func (s Disk) isRemoved(dir string) bool {
	return isGone(s.Rmdir(dir))
}

// isGone reports whether a removal with this error has left nothing.
func isGone(err error) bool { return err == nil || errors.Is(err, fs.ErrNotExist) }
