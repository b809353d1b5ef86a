package nfs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
)

// The test binary is also the program that is killed: with these variables it
// carries out one verb and exits.
const (
	verbVar   = "VOLUMEKIT_TEST_VERB"
	dirVar    = "VOLUMEKIT_TEST_DIR"
	exportVar = "VOLUMEKIT_TEST_EXPORT" // on IPv4's loopback address
	oneVar    = "VOLUMEKIT_TEST_ONE"
)

func TestMain(m *testing.M) {
	if verb := os.Getenv(verbVar); verb != "" {
		if err := runVerb(verb); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func runVerb(verb string) error {
	host, err := volume.NewHost(os.Getenv(dirVar)+"/root", volume.WithNodeName("node-1"))
	if err != nil {
		return err
	}
	plugin := nfs.New(nfs.Config{Mounter: realMounter(os.Getenv(dirVar), 300*time.Millisecond), OneMountPerExport: os.Getenv(oneVar) != ""})
	if err := plugin.Init(host); err != nil {
		return err
	}
	spec, ctx := pvAt("127.0.0.1", os.Getenv(exportVar), "ro", "noexec"), context.Background()
	if verb == "up" {
		mounter, err := plugin.NewMounter(spec, podOf("1"))
		if err != nil {
			return err
		}
		return mounter.SetUp(ctx, volume.MounterArgs{})
	}
	unmounter, err := plugin.NewUnmounter(spec.Name(), podOf("1").UID)
	if err != nil {
		return err
	}
	if verb == "down in time" {
		return inTime(unmounter.TearDown)
	}
	return unmounter.TearDown(ctx)
}

// command is this program for a verb.
func (n *node) command(verb, path string, one bool) *exec.Cmd {
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), verbVar+"="+verb, dirVar+"="+filepath.Dir(n.host.Root()), exportVar+"="+path)
	if one {
		c.Env = append(c.Env, oneVar+"=1")
	}
	c.Stderr = os.Stderr
	return c
}

// TestNFSKilled: after SIGKILL at any place in SetUp or TearDown the pod has one
// mount or none, and doing the same again gives the right state, and leaves nothing
// over, no export either.
func TestNFSKilled(t *testing.T) {
	for _, one := range []bool{false, true} {
		for _, verb := range []string{"up", "down"} {
			t.Run(fmt.Sprintf("%s/%t", verb, one), func(t *testing.T) {
				testKilled(t, nfs.Config{OneMountPerExport: one}, verb)
			})
		}
	}
}

func testKilled(t *testing.T, c nfs.Config, verb string) {
	n := newNode(t, c)
	path := n.exported("a")
	spec := n.pv(path, "ro", "noexec")
	target := n.mounter(spec, "1").GetPath()
	program := func() *exec.Cmd {
		n.down(spec, "1")
		require.NoError(t, os.RemoveAll(n.host.Root()+"/pods")) // nothing is mounted below it
		require.NoError(t, os.RemoveAll(n.host.Root()+"/plugins"))
		if verb == "down" {
			n.up(spec, "1")
		}
		return n.command(verb, path, c.OneMountPerExport)
	}
	var places []string
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		places = append(places, place)
		n.requireOneAtMost(target, place)
		n.on(filepath.Dir(n.host.Root()), c) // the process that comes after
		if verb == "up" {
			require.NotZero(t, n.up(spec, "1").Flags&mount.ReadOnly, place)
			n.requireOneAtMost(target, place)
		}
		// An export that is left is given a second only each time.
		require.Eventually(t, func() bool { n.down(spec, "1"); return len(n.mounted()) == 0 }, time.Minute, time.Millisecond, place)
		for _, left := range []string{n.ownDir() + "/mounts/*", n.host.Root() + "/../staging/*"} {
			found, err := filepath.Glob(left)
			require.NoError(t, err)
			require.Empty(t, found, place)
		}
		require.FileExists(t, path+"/precious", place)
	})
	t.Logf("killed at %d places: %v", kills, places)
	require.Positive(t, kills)
}

// requireOneAtMost looks for a mount of the pod's volume, which must be as it was
// asked for, and of the export, if pods share it, which is not.
func (n *node) requireOneAtMost(target, place string) {
	n.Helper()
	ofPod, ofExport := 0, 0
	for _, info := range n.mounted() {
		if info.Mountpoint != target {
			require.Equal(n, n.ownDir()+"/mounts", filepath.Dir(info.Mountpoint), place)
			ofExport++
			continue
		}
		ofPod++
		require.NotZero(n, info.Flags&mount.ReadOnly, place)
		require.NotZero(n, info.Flags&mount.NoExec, place)
	}
	require.LessOrEqual(n, ofPod, 1, place)
	require.LessOrEqual(n, ofExport, 1, place)
}
