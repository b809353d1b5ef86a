package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

func TestMain(m *testing.M) {
	programs := map[string]func(mounttest.Process){
		"up": func(p mounttest.Process) {
			n := processNode(p)
			require.NoError(p, n.mounter(p, spec(n.disks+"/disk", "ro"), "1").SetUp(context.Background(), volume.MounterArgs{}))
		},
		"down": func(p mounttest.Process) {
			require.NoError(p, processNode(p).unmounter(p, "1").TearDown(context.Background()))
		},
	}
	programs["volume"] = volumeProgram
	programs["provision"], programs["delete"] = provisionProgram, deleteProgram
	for verb, work := range deviceVerbs {
		programs[verb] = func(p mounttest.Process) {
			m := mount.New(mount.Config{StagingDir: p.Args[0] + "/staging"})
			require.NoError(p, work(diskNode(p, p.Args[0], local.Config{Mounter: m}), p.Args[0]))
		}
	}
	mounttest.Main(m, programs)
}

// processNode returns the node of a process whose arguments are its directory and its tier.
func processNode(p mounttest.Process) *node {
	tier, err := strconv.Atoi(p.Args[1])
	require.NoError(p, err)
	return killNode(p, p.Args[0], mount.Tier(tier))
}

func killNode(t require.TestingT, dir string, tier mount.Tier) *node {
	return nodeIn(t, mount.New(mount.Config{Tier: tier, StagingDir: dir + "/staging"}), dir)
}

// TestKilled: after SIGKILL at any place in SetUp or TearDown of a read-only
// volume there is one mount or none, it is read-only, and doing the same again
// gives the right state and leaves nothing over.
func TestKilled(t *testing.T) {
	for _, tier := range mount.Tiers() {
		for _, verb := range []string{"up", "down"} {
			t.Run(tier.String()+"/"+verb, func(t *testing.T) {
				if mounttest.Namespace(t) {
					testKilled(t, tier, verb)
				}
			})
		}
	}
}

func testKilled(t *testing.T, tier mount.Tier, verb string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	m := mount.New(mount.Config{})
	n := killNode(t, dir, tier)
	mounter, unmounter := n.mounter(t, spec(n.disks+"/disk", "ro"), "1"), n.unmounter(t, "1")
	program := func() *exec.Cmd {
		resetNode(t, dir, unmounter)
		if verb == "down" {
			require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
		}
		return mounttest.Program(verb, dir, strconv.Itoa(int(tier)))
	}
	var places []string
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		places = append(places, place)
		mounts := mountsBelow(t, m, n.host.Root())
		require.LessOrEqual(t, len(mounts), 1, place)
		requireReadOnly(t, mounts, place)

		// The same verb once more, by the process that comes after.
		next := killNode(t, dir, tier)
		if verb == "up" {
			require.NoError(t, next.mounter(t, spec(n.disks+"/disk", "ro"), "1").SetUp(t.Context(), volume.MounterArgs{}), place)
			mounts := mountsBelow(t, m, n.host.Root())
			require.Len(t, mounts, 1, place)
			requireReadOnly(t, mounts, place)
		}
		require.NoError(t, next.unmounter(t, "1").TearDown(t.Context()), place)
		require.NoDirExists(t, unmounter.GetPath(), place)
		require.Empty(t, mountsBelow(t, m, dir), "%s: mounts are left", place)
		left, err := filepath.Glob(dir + "/staging/*")
		require.NoError(t, err)
		require.Empty(t, left, "%s: staging areas are left", place)
		require.FileExists(t, n.disks+"/disk/precious")
	})
	t.Logf("killed at %d places: %v", kills, places)
	require.Positive(t, kills)
	if !testing.Short() {
		require.GreaterOrEqual(t, kills, 4)
	}
}

// resetNode restores the node's first state: a disk with a file, and no volume set up.
func resetNode(t *testing.T, dir string, u volume.Unmounter) {
	t.Helper()
	require.NoError(t, u.TearDown(t.Context()))
	require.NoError(t, os.RemoveAll(dir+"/root/pods")) // nothing is mounted below it
	require.NoError(t, os.WriteFile(dir+"/disks/disk/precious", nil, 0o600))
}

// requireReadOnly tries to write, besides asking.
func requireReadOnly(t *testing.T, mounts []mount.Info, place string) {
	t.Helper()
	for _, info := range mounts {
		require.NotZero(t, info.Flags&mount.ReadOnly, place)
		require.Error(t, os.WriteFile(info.Mountpoint+"/written", nil, 0o600), place)
	}
}
