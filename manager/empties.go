package manager

import "path/filepath"

// subpaths is the directory of a pod's with the parts of its volumes that containers have.
const subpaths = "volume-subpaths"

// removeEmpties removes the directories of pods in which there is nothing, as an
// operation that was killed leaves them. What is in the way stays: it is rmdir that says
// what is empty.
func removeEmpties(root string, namesIn func(dir string) []string, rmdir func(dir string) error) {
	pods := filepath.Join(root, "pods")
	for _, pod := range namesIn(pods) {
		for _, kind := range []string{"volumes", "volumeDevices", "plugins", subpaths} {
			dir := filepath.Join(pods, pod, kind)
			for _, plugin := range namesIn(dir) {
				if kind == "plugins" || kind == subpaths {
					for _, name := range namesIn(filepath.Join(dir, plugin)) {
						_ = rmdir(filepath.Join(dir, plugin, name))
					}
				}
				_ = rmdir(filepath.Join(dir, plugin))
			}
			_ = rmdir(dir)
		}
		_ = rmdir(filepath.Join(pods, pod))
	}
}

func namesOrNone(dir string) []string {
	names, _ := namesIn(dir) // what cannot be read is not empty
	return names
}
