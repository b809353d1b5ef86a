package manager

import (
	"path/filepath"

	"github.com/volumekit/volumekit/util/safepath"
)

// removeEmpties removes the directories of pods in which there is nothing, as an
// operation that was killed leaves them. What is in the way stays: it is rmdir that says
// what is empty.
func removeEmpties(root string) {
	pods := filepath.Join(root, "pods")
	for _, pod := range namesOrNone(pods) {
		for _, kind := range []string{"volumes", "volumeDevices", "plugins"} {
			dir := filepath.Join(pods, pod, kind)
			for _, plugin := range namesOrNone(dir) {
				if kind == "plugins" {
					rmdirEach(filepath.Join(dir, plugin))
				}
				_ = safepath.Rmdir(filepath.Join(dir, plugin))
			}
			_ = safepath.Rmdir(dir)
		}
		_ = safepath.Rmdir(filepath.Join(pods, pod))
	}
}

func rmdirEach(dir string) {
	for _, name := range namesOrNone(dir) {
		_ = safepath.Rmdir(filepath.Join(dir, name))
	}
}

func namesOrNone(dir string) []string {
	names, _ := namesIn(dir) // what cannot be read is not empty
	return names
}
