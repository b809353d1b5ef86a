package safepath

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// MountID returns the ID of a descriptor's mount in the mount table. It reads the process's
// own fdinfo, never the file system, so it has no context (Linux 3.15).
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
	return 0, fmt.Errorf("read %s: no line mnt_id", name)
}
