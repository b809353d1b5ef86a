package hostpath_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){
		"up": func(p mounttest.Process) {
			n, kind := processNode(p), v1.HostPathType(p.Args[2])
			require.NoError(p, n.mounterOf(p, killSpec(n, kind)).SetUp(context.Background(), volume.MounterArgs{ReadOnly: true}))
		},
		"down": func(p mounttest.Process) {
			require.NoError(p, processNode(p).unmounter(p).TearDown(context.Background()))
		},
	})
}

// processNode returns the node of a process whose arguments are its directory, its tier and
// its propagation.
func processNode(p mounttest.Process) *node {
	tier, err := strconv.Atoi(p.Args[1])
	require.NoError(p, err)
	how, err := strconv.Atoi(p.Args[3])
	require.NoError(p, err)
	return killNode(p, p.Args[0], mount.Tier(tier), mount.Propagation(how))
}

func killNode(t require.TestingT, dir string, tier mount.Tier, how mount.Propagation) *node {
	return nodeIn(t, mount.New(mount.Config{Tier: tier, StagingDir: dir + "/staging"}), dir, withPropagation(how))
}

func killProgram(verb, dir string, tier mount.Tier, kind v1.HostPathType, how mount.Propagation) *exec.Cmd {
	return mounttest.Program(verb, dir, strconv.Itoa(int(tier)), string(kind), strconv.Itoa(int(how)))
}

func killSpec(n *node, kind v1.HostPathType) *volume.Spec { return inPod(n.paths+"/new", kind) }

// TestKilled: after SIGKILL at any place in SetUp or TearDown of a read-only volume that
// was created, or in a SetUp that mounts a replacement, there is one mount or none, it is read-only, and the same again gives the
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
			for _, verb := range []string{"up", "renew", "down"} {
				if verb == "renew" && (tier != tiers[len(tiers)-1] || kind != kinds[0]) {
					continue // it unmounts and mounts as the others
				}
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
	n := killNode(t, dir, tier, mount.PropagationPrivate)
	program := func() *exec.Cmd {
		require.NoError(t, n.unmounter(t).TearDown(t.Context()))
		require.NoError(t, os.RemoveAll(dir+"/root/pods")) // nothing is mounted below it
		require.NoError(t, os.RemoveAll(n.paths+"/new"))
		require.NoError(t, os.WriteFile(n.paths+"/precious", []byte("precious"), 0o600))
		if verb != "up" {
			require.NoError(t, n.mounterOf(t, killSpec(n, kind)).SetUp(t.Context(), volume.MounterArgs{ReadOnly: true}))
		}
		if verb == "renew" {
			require.NoError(t, os.RemoveAll(n.paths+"/new"))
			return killProgram("up", dir, tier, kind, mount.PropagationPrivate)
		}
		return killProgram(verb, dir, tier, kind, mount.PropagationPrivate)
	}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		mounts := slices.DeleteFunc(n.mounts(t), func(info mount.Info) bool { // of an unfinished renewal
			return strings.Contains(info.Mountpoint, "/renewals/")
		})
		require.LessOrEqual(t, len(mounts), 1, place)
		for _, info := range mounts {
			require.NotZero(t, info.Flags&mount.ReadOnly, place)
		}
		next := killNode(t, dir, tier, mount.PropagationPrivate) // the process that comes after
		if verb != "down" {
			require.NoError(t, next.mounterOf(t, killSpec(n, kind)).SetUp(t.Context(), volume.MounterArgs{ReadOnly: true}), place)
			at := n.unmounter(t).GetPath()
			table, err := n.mounter.List(t.Context())
			require.NoError(t, err)
			info, ok := mount.Table(table).At(at)
			require.True(t, ok, place)
			require.NotZero(t, info.Flags&mount.ReadOnly, place)
			require.Equal(t, inode(t, n.paths+"/new"), inode(t, at), place)
		}
		next.tearDown(t)
		requireSwept(t, dir, place)
		text, err := os.ReadFile(n.paths + "/precious")
		require.NoError(t, err, place)
		require.Equal(t, "precious", string(text), place)
	})
	t.Logf("killed at %d places", kills)
	require.GreaterOrEqual(t, kills, 2)
}

func requireSwept(t *testing.T, dir, place string) {
	t.Helper()
	left, err := filepath.Glob(dir + "/staging/*")
	require.NoError(t, err)
	require.Empty(t, left, "%s: staging areas are left", place)
}

// TestKilledWhileSpreading checks that SIGKILL at any place leaves nothing behind of a
// volume that shares its mounts with the node, and that the node's own mounts stay.
func TestKilledWhileSpreading(t *testing.T) {
	tiers := mount.Tiers()
	for _, tier := range []mount.Tier{tiers[0], tiers[len(tiers)-1]} {
		for _, verb := range []string{"up", "down"} {
			t.Run(tier.String()+"/"+verb, func(t *testing.T) {
				if mounttest.RootNamespace(t) {
					testKilledWhileSpreading(t, tier, verb)
				}
			})
		}
	}
}

func testKilledWhileSpreading(t *testing.T, tier mount.Tier, verb string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := killNode(t, dir, tier, mount.PropagationShared)
	data := n.sharedData(t, "new")
	up := func(n *node) error {
		return n.mounterOf(t, killSpec(n, v1.HostPathDirectory)).SetUp(t.Context(), volume.MounterArgs{ReadOnly: true})
	}
	program := func() *exec.Cmd {
		n.tearDown(t)
		if verb == "down" {
			require.NoError(t, up(n))
		}
		return killProgram(verb, dir, tier, v1.HostPathDirectory, mount.PropagationShared)
	}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		require.FileExists(t, data+"/own/file", place)
		next := killNode(t, dir, tier, mount.PropagationShared)
		if verb == "up" {
			require.NoError(t, up(next), place)
			require.FileExists(t, next.unmounter(t).GetPath()+"/own/file", place)
		}
		next.tearDown(t)
		requireSwept(t, dir, place)
		require.FileExists(t, data+"/own/file", place)
	})
	t.Logf("killed at %d places", kills)
	require.GreaterOrEqual(t, kills, 2)
}
