package poddirs

import (
	"errors"
	"io/fs"
	"path/filepath"
)

// A sweeper removes empty directories.
type sweeper struct {
	namesIn func(dir string) []string
	rmdir   func(dir string) error
}

// RemoveEmptyDirs removes the empty directories of pods, as a killed operation leaves them. Other
// directories stay: rmdir decides which are empty.
func RemoveEmptyDirs(root string, namesIn func(dir string) []string, rmdir func(dir string) error) {
	s := sweeper{namesIn, rmdir}
	pods := filepath.Join(root, "pods")
	for _, pod := range namesIn(pods) {
		if pod == "lost+found" {
			continue // fsck needs it, in a file system that is mounted for the pods
		}
		dir := filepath.Join(pods, pod)
		s.remove(dir, func(kind string) bool {
			dir := filepath.Join(dir, kind)
			switch kind {
			case "volumes", "volumeDevices":
				return s.remove(dir, func(plugin string) bool { return s.isRemoved(filepath.Join(dir, plugin)) })
			case "plugins", Subpaths:
				return s.remove(dir, func(plugin string) bool {
					dir := filepath.Join(dir, plugin)
					return s.remove(dir, func(name string) bool { return s.isRemoved(filepath.Join(dir, name)) })
				})
			}
			return false
		})
	}
}

// remove removes a directory after its entries, of which each reports whether it is gone. A
// directory in which an entry stays is not empty: removing it would fail.
func (s sweeper) remove(dir string, entry func(name string) bool) bool {
	all := true
	for _, name := range s.namesIn(dir) {
		all = entry(name) && all
	}
	return all && s.isRemoved(dir)
}

// isRemoved removes a directory, and reports whether it is gone.
func (s sweeper) isRemoved(dir string) bool {
	err := s.rmdir(dir)
	return err == nil || errors.Is(err, fs.ErrNotExist)
}
