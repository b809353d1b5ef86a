package nfs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){
		"up": func(p mounttest.Process) {
			plugin, spec := processPlugin(p)
			mounter, err := plugin.NewMounter(spec, podOf("1"))
			require.NoError(p, err)
			require.NoError(p, mounter.SetUp(context.Background(), volume.MounterArgs{}))
		},
		"down": func(p mounttest.Process) {
			require.NoError(p, processUnmounter(p).TearDown(context.Background()))
		},
		"down in time": func(p mounttest.Process) {
			require.NoError(p, tearDownRepeatedly(processUnmounter(p).TearDown))
		},
	})
}

// processPlugin returns the plugin and the volume of a process. Its arguments are its
// directory, an export on IPv4's loopback address, and whether the plugin mounts each export
// once.
func processPlugin(p mounttest.Process) (*nfs.Plugin, *volume.Spec) {
	host, err := volume.NewHost(context.Background(), p.Args[0]+"/root", volume.WithNodeName("node-1"))
	require.NoError(p, err)
	one, err := strconv.ParseBool(p.Args[2])
	require.NoError(p, err)
	plugin := nfs.New(nfs.Config{Mounter: realMounter(p.Args[0], 300*time.Millisecond), OneMountPerExport: one})
	require.NoError(p, plugin.Init(context.Background(), host))
	return plugin, pvAt("127.0.0.1", p.Args[1], "ro", "noexec")
}

func processUnmounter(p mounttest.Process) volume.Unmounter {
	plugin, spec := processPlugin(p)
	unmounter, err := plugin.NewUnmounter(spec.Name(), podOf("1").UID)
	require.NoError(p, err)
	return unmounter
}

// command is this program for a verb.
func (n *node) command(verb, path string, one bool) *exec.Cmd {
	return mounttest.Program(verb, filepath.Dir(n.host.Root()), path, strconv.FormatBool(one))
}

// TestNFSKilled: after SIGKILL at any place in SetUp or TearDown the pod has one
// mount or none, and doing the same again gives the right state, and leaves nothing
// over, no export either. A short test does the SetUp with one mount for each export alone.
func TestNFSKilled(t *testing.T) {
	for _, one := range []bool{false, true} {
		for _, verb := range []string{"up", "down"} {
			if testing.Short() && verb == "up" && !one {
				continue
			}
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
		n.tearDown(spec, "1")
		require.NoError(t, os.RemoveAll(n.host.Root()+"/pods")) // nothing is mounted below it
		require.NoError(t, os.RemoveAll(n.host.Root()+"/plugins"))
		if verb == "down" {
			n.setUp(spec, "1")
		}
		return n.command(verb, path, c.OneMountPerExport)
	}
	var places []string
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		places = append(places, place)
		n.requireOneAtMost(target, place)
		n.on(filepath.Dir(n.host.Root()), c) // the process that comes after
		if verb == "up" {
			require.NotZero(t, n.setUp(spec, "1").Flags&mount.ReadOnly, place)
			n.requireOneAtMost(target, place)
		}
		// An export that is left is given a second only each time.
		require.Eventually(t, func() bool { n.tearDown(spec, "1"); return len(n.mountsBelowRoot()) == 0 }, time.Minute, time.Millisecond, place)
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
	for _, info := range n.mountsBelowRoot() {
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
