package local_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/volume"
)

// TestMkfsKilled kills mkfs, and the process that runs it, before each of its writes. The
// next process recognizes the remains on the device as its own and formats it.
func TestMkfsKilled(t *testing.T) {
	if !testbed.Long() { // TestFormatInterruptedBeforeSuperblock is one of the places
		t.Skip("it takes minutes: VOLUMEKIT_LONG=1")
	}
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			r := newRig(t, fsType)
			if r == nil {
				return
			}
			testbed.RequirePrograms(t, "strace", "strace")
			testMkfsKilled(t, r, fsType)
		})
	}
}

func testMkfsKilled(t *testing.T, r *rig, fsType string) {
	d := r.disk("disk", diskFor[fsType])
	s := deviceSpec(r.link("disk", d), fsType)
	ended := r.dir + "/ended"
	for n := 1; ; n++ {
		require.NoError(t, os.Truncate(d.image, 0))
		require.NoError(t, os.Truncate(d.image, diskFor[fsType]))
		require.NoError(t, r.plugin.Forget(t.Context(), "pv"))
		inject := fmt.Sprintf("inject=pwrite64,pwritev,write:signal=KILL:when=%d", n)
		r.replacePrograms(map[string]string{"mkfs." + fsType: "strace -f -o /dev/null -P $DEVICE -e " + inject + ` "$0" "$@" && echo >` + ended})
		err := r.mountDevice(s)
		if _, none := os.Stat(ended); none == nil {
			require.NoError(t, err)
			require.NoError(t, r.unmountDevice(s))
			t.Logf("%d writes", n-1)
			require.Greater(t, n, 3)
			return
		}
		require.NotEqual(t, volume.Final, volume.KindOf(err), "%d: %v", n, err) // transient while the device is blank
		r.restart(local.Config{})
		require.NoError(t, r.mountDevice(s), "killed before write %d", n)
		require.NoError(t, r.unmountDevice(s))
	}
}
