package emptydir_test

import (
	"context"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// upAndDown sets a volume up and tears it down, as often as the last argument says.
func upAndDown(p mounttest.Process) {
	n := killNode(p, p.Args[0])
	rounds, err := strconv.Atoi(p.Args[2])
	require.NoError(p, err)
	m, u := n.mounter(p, onMedium(v1.StorageMedium(p.Args[1]))), n.unmounter(p)
	for range rounds {
		require.NoError(p, m.SetUp(context.Background(), volume.MounterArgs{}))
		require.NoError(p, u.TearDown(context.Background()))
	}
}

// TestCallsOfUpAndDown pins the system calls of a set-up and a tear-down of an empty volume,
// and that none of them waits for a disk.
//
// For a volume on disk in existing directories of the pod the kubelet calls stat(ready),
// stat(dir), mkdir(dir), lstat, chmod, lstat; stat(meta), mkdir(meta), open and close of ready;
// and for the removal unlink(ready) and rmdir(meta), each after opening and reading the
// directory, stat(dir), mkdir(temporary), rename, and the removal of that directory. The
// minimal calls for a volume in memory are mkdir, mount, umount2 and rmdir.
func TestCallsOfUpAndDown(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	const few, many = 10, 60
	for medium, most := range map[string]int{"": 21, "Memory": 48} {
		const repeated = 2 // calls: mounts of other programs make a lookup in the cache fail
		if medium == "Memory" && !slices.Contains(mount.Tiers(), mount.TierTreeAttr) {
			continue // an older kernel needs other calls
		}
		dir := testbed.Dir(t)
		// Another volume keeps the directories of the pod.
		require.NoError(t, killNode(t, dir).mounter(t, onMedium("")).SetUp(t.Context(), volume.MounterArgs{}))
		require.NoError(t, killNode(t, dir).unmounter(t).TearDown(t.Context()))
		var after map[string]int
		count := func(rounds int) map[string]int {
			after = mounttest.CountCalls(t, mounttest.Program("rounds", dir, medium, strconv.Itoa(rounds)))
			return after
		}
		calls, total := testbed.CallsPerRound(count(few), count(many), many-few)
		assert.LessOrEqual(t, total, most+repeated, "medium %q: %v", medium, calls)
		for _, name := range []string{"fsync", "fdatasync", "syncfs"} {
			assert.Zero(t, after[name], name)
		}
	}
}
