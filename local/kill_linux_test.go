package local_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// The test binary is also the program that is killed: with these variables it
// carries out one verb and exits.
const (
	verbVar = "VOLUMEKIT_TEST_VERB"
	dirVar  = "VOLUMEKIT_TEST_DIR"
	tierVar = "VOLUMEKIT_TEST_TIER"
)

func TestMain(m *testing.M) {
	if verb := os.Getenv(verbVar); verb != "" {
		os.Exit(runVerb(verb))
	}
	os.Exit(m.Run())
}

func runVerb(verb string) int {
	if work, ok := deviceVerbs[verb]; ok {
		return runDeviceVerb(work)
	}
	tier, _ := strconv.Atoi(os.Getenv(tierVar))
	n := killNode(fatal{}, os.Getenv(dirVar), mount.Tier(tier))
	var err error
	if verb == "up" {
		err = n.mounter(fatal{}, spec(n.disks+"/disk", "ro"), "1").SetUp(context.Background(), volume.MounterArgs{})
	} else {
		err = n.unmounter(fatal{}, "1").TearDown(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// fatal ends a program where a test would fail.
type fatal struct{}

func (fatal) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format, args...) }
func (fatal) FailNow()                          { os.Exit(1) }

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
		reset(t, dir, unmounter)
		if verb == "down" {
			require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
		}
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), verbVar+"="+verb, dirVar+"="+dir, tierVar+"="+strconv.Itoa(int(tier)))
		c.Stderr = os.Stderr
		return c
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

// reset brings the node to its first state: a disk with a file, and nothing up.
func reset(t *testing.T, dir string, u volume.Unmounter) {
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
