package safepath

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// MountID returns the mount that a descriptor is in, by the number that it has in
// the mount table. It asks the process's table of descriptors, never the file
// system (Linux 3.15).
func MountID(fd int) (int, error) {
	name := "/proc/self/fdinfo/" + strconv.Itoa(fd)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.Atoi(strings.TrimSpace(id))
		}
	}
	return 0, fmt.Errorf("%s names no mount", name)
}
