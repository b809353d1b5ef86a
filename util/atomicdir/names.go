package atomicdir

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"time"
)

const (
	dataLink = "..data"
	// New links are made under these names, and renamed.
	newDataLink = "..data_tmp"
	newLink     = "..link_tmp"
)

// setName matches the names of directories of sets, the kubelet's as well.
var setName = regexp.MustCompile(`^\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d{1,10}$`)

func newSetName(now time.Time) string {
	return now.UTC().Format("..2006_01_02_15_04_05.") + strconv.FormatUint(uint64(rand.Uint32()), 10)
}

// visible is where the link of a name leads.
func visible(top string) string { return dataLink + "/" + top }
