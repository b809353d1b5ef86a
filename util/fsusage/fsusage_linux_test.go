package fsusage

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestUsageOf: no number is impossible, also if a file system reports impossible ones.
func TestUsageOf(t *testing.T) {
	const most = math.MaxInt64
	for name, test := range map[string]struct {
		says unix.Statfs_t
		want Usage
	}{
		"plain": {
			unix.Statfs_t{Bsize: 4096, Frsize: 512, Blocks: 10, Bfree: 4, Bavail: 3, Files: 9, Ffree: 2},
			Usage{5120, 3072, 1536, 9, 7, 2},
		},
		"no fragments":     {unix.Statfs_t{Bsize: 4096, Blocks: 2, Bfree: 1}, Usage{8192, 4096, 0, 0, 0, 0}},
		"more than all":    {unix.Statfs_t{Frsize: 1 << 20, Blocks: 1 << 62, Bavail: 1 << 43}, Usage{most, most, most, 0, 0, 0}},
		"just too many":    {unix.Statfs_t{Frsize: 2, Blocks: 1 << 62, Files: 1 << 63}, Usage{most, most, 0, most, most, 0}},
		"more free":        {unix.Statfs_t{Frsize: 1, Blocks: 5, Bfree: 9, Bavail: 7, Files: 1, Ffree: 4}, Usage{5, 0, 7, 1, 0, 4}},
		"as hugetlbfs":     {unix.Statfs_t{Frsize: 2 << 20, Files: notKnown, Ffree: notKnown}, Usage{}},
		"does not know":    {unix.Statfs_t{Frsize: 1, Blocks: notKnown, Bfree: 1, Bavail: 1, Files: notKnown, Ffree: 1}, Usage{}},
		"nor what is free": {unix.Statfs_t{Frsize: 1, Blocks: 5, Bfree: notKnown, Bavail: notKnown}, Usage{Capacity: 5}},
		"negative sizes":   {unix.Statfs_t{Frsize: -1, Bsize: -1, Blocks: 5}, Usage{}},
	} {
		require.Equal(t, test.want, usageOf(&test.says), name)
	}
}
