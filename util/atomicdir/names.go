package atomicdir

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"
)

const (
	dataLink = "..data"
	// New links are created under these names, and renamed.
	newDataLink = "..data_tmp"
	newLink     = "..link_tmp"
	// A new view or mount point is created under this name, and renamed.
	newPoint = "..mount_tmp"
)

// setName matches the names of sets' directories, including the kubelet's.
var setName = regexp.MustCompile(`^\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d{1,10}$`)

func newSetName(now time.Time) string {
	return now.UTC().Format("..2006_01_02_15_04_05.") + strconv.FormatUint(uint64(rand.Uint32()), 10)
}
