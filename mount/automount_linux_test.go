package mount_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestLookupTriggersAutomount: a lookup that ends with its context triggers an automount, too.
// Without debugfs, and its automount of tracefs, the test checks nothing.
func TestLookupTriggersAutomount(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := mkdirs(t, "before", "after")
	for _, debug := range []string{dir + "/before", dir + "/after"} {
		if err := unix.Mount("x", debug, "debugfs", 0, ""); err != nil {
			t.Log(err)
			return
		}
		t.Cleanup(func() { _ = unix.Unmount(debug, unix.MNT_DETACH) })
	}
	var stat unix.Stat_t
	if err := unix.Stat(dir+"/before/tracing/events", &stat); err != nil {
		t.Log(err)
		return
	}
	is, err := mount.New(mount.Config{}).IsMountPoint(t.Context(), dir+"/after/tracing/events")
	require.NoError(t, err)
	require.False(t, is)
}
