package hostpath_test

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
	v1 "k8s.io/api/core/v1"
)

func runVerb(verb string) int {
	tier, _ := strconv.Atoi(os.Getenv(tierVar))
	n := killNode(fatal{}, os.Getenv(dirVar), mount.Tier(tier))
	var err error
	if verb == "up" {
		err = n.mounterOf(fatal{}, killSpec(n, v1.HostPathType(os.Getenv(kindVar)))).SetUp(context.Background(), volume.MounterArgs{ReadOnly: true})
	} else {
		err = n.unmounter(fatal{}).TearDown(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func killNode(t require.TestingT, dir string, tier mount.Tier) *node {
	return nodeIn(t, mount.New(mount.Config{Tier: tier, StagingDir: dir + "/staging"}), dir)
}

func killSpec(n *node, kind v1.HostPathType) *volume.Spec { return inPod(n.paths+"/new", kind) }

// TestKilled: after SIGKILL at any place in SetUp or TearDown of a read-only volume that
// was created, there is one mount or none, it is read-only, and the same again gives the
// right state and leaves nothing over.
func TestKilled(t *testing.T) {
	tiers := mount.Tiers()
	tiers = []mount.Tier{tiers[0], tiers[len(tiers)-1]}
	kinds := []v1.HostPathType{v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate}
	if testing.Short() { // slow machines
		tiers, kinds = tiers[1:], kinds[1:]
	}
	for _, kind := range kinds {
		for _, tier := range tiers {
			for _, verb := range []string{"up", "down"} {
				t.Run(string(kind)+"/"+tier.String()+"/"+verb, func(t *testing.T) {
					if mounttest.Namespace(t) {
						testKilled(t, kind, tier, verb)
					}
				})
			}
		}
	}
}

func testKilled(t *testing.T, kind v1.HostPathType, tier mount.Tier, verb string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := killNode(t, dir, tier)
	program := func() *exec.Cmd {
		require.NoError(t, n.unmounter(t).TearDown(t.Context()))
		require.NoError(t, os.RemoveAll(dir+"/root/pods")) // nothing is mounted below it
		require.NoError(t, os.RemoveAll(n.paths+"/new"))
		require.NoError(t, os.WriteFile(n.paths+"/precious", []byte("precious"), 0o600))
		if verb == "down" {
			require.NoError(t, n.mounterOf(t, killSpec(n, kind)).SetUp(t.Context(), volume.MounterArgs{ReadOnly: true}))
		}
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), verbVar+"="+verb, dirVar+"="+dir, kindVar+"="+string(kind), tierVar+"="+strconv.Itoa(int(tier)))
		c.Stderr = os.Stderr
		return c
	}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		mounts := n.mounts(t)
		require.LessOrEqual(t, len(mounts), 1, place)
		for _, info := range mounts {
			require.NotZero(t, info.Flags&mount.ReadOnly, place)
		}
		next := killNode(t, dir, tier) // the process that comes after
		if verb == "up" {
			require.NoError(t, next.mounterOf(t, killSpec(n, kind)).SetUp(t.Context(), volume.MounterArgs{ReadOnly: true}), place)
			mounts := n.mounts(t)
			require.Len(t, mounts, 1, place)
			require.NotZero(t, mounts[0].Flags&mount.ReadOnly, place)
		}
		next.down(t)
		left, err := filepath.Glob(dir + "/staging/*")
		require.NoError(t, err)
		require.Empty(t, left, "%s: staging areas are left", place)
		text, err := os.ReadFile(n.paths + "/precious")
		require.NoError(t, err, place)
		require.Equal(t, "precious", string(text), place)
	})
	t.Logf("killed at %d places", kills)
	require.GreaterOrEqual(t, kills, 2)
}
