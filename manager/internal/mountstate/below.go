package mountstate

import (
	"strings"

	"github.com/volumekit/volumekit/mount"
)

// Below returns a number that identifies the set of mounts below a path; 0: none.
func Below(table []mount.Info, path string) (sum uint64) {
	for _, info := range table {
		if strings.HasPrefix(info.Mountpoint, path+"/") {
			sum += 1<<32 | uint64(info.ID)
		}
	}
	return sum
}
