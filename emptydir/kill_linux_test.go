package emptydir_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
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
			medium := onMedium(v1.StorageMedium(p.Args[1]))
			require.NoError(p, killNode(p, p.Args[0]).mounter(p, medium).SetUp(context.Background(), volume.MounterArgs{}))
		},
		"again": func(p mounttest.Process) {
			medium := onMedium(v1.StorageMedium(p.Args[1]))
			require.NoError(p, killNode(p, p.Args[0]).mounter(p, medium).SetUp(context.Background(), inGroup()))
		},
		"rounds": upAndDown,
		"down": func(p mounttest.Process) {
			require.NoError(p, killNode(p, p.Args[0]).unmounter(p).TearDown(context.Background()))
		},
	})
}

// inGroup returns arguments with a group, by which the volume's mode differs from its mount's.
func inGroup() volume.MounterArgs {
	group := int64(0)
	return volume.MounterArgs{FsGroup: &group}
}

func killNode(t require.TestingT, dir string) *node {
	return nodeIn(t, mount.New(mount.Config{StagingDir: dir + "/staging"}), dir)
}

// TestKilled: after SIGKILL at any call of SetUp or TearDown the volume counts as set up only
// if it is whole, the same call continues, and nothing is left over or lost outside of the
// volume. "again" sets up a volume that another process has removed, or whose mount has ended
// with the machine, while its note stays.
func TestKilled(t *testing.T) {
	for _, medium := range []v1.StorageMedium{"", "Memory", "HugePages-2Mi"} {
		for _, verb := range []string{"up", "again", "down"} {
			t.Run(strings.TrimPrefix(string(medium)+"/"+verb, "/"), func(t *testing.T) {
				if mayMount(t, medium) {
					testKilled(t, medium, verb)
				}
			})
		}
	}
}

func testKilled(t *testing.T, medium v1.StorageMedium, verb string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := killNode(t, dir)
	mounter, unmounter := n.mounter(t, onMedium(medium)), n.unmounter(t)
	require.NoError(t, os.MkdirAll(dir+"/outside/sub", 0o755))
	precious := []string{dir + "/outside/precious", dir + "/outside/sub/precious"}
	for _, name := range precious {
		require.NoError(t, os.WriteFile(name, []byte("precious"), 0o600))
	}
	args, mode := volume.MounterArgs{}, os.ModeDir|0o777
	if verb == "again" {
		args, mode = inGroup(), mode|os.ModeSetgid
	}
	program := func() *exec.Cmd {
		require.NoError(t, unmounter.TearDown(t.Context()))
		require.NoError(t, os.RemoveAll(n.host.Root()+"/pods")) // no mounts are left in it
		switch verb {
		case "down":
			require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
			fill(t, medium, mounter.GetPath(), dir+"/outside")
		case "again":
			require.NoError(t, mounter.SetUp(t.Context(), args))
			if medium == "" {
				require.NoError(t, os.Remove(mounter.GetPath()))
			} else {
				require.NoError(t, n.Unmount(t.Context(), mounter.GetPath()))
			}
		}
		return mounttest.Program(verb, dir, string(medium))
	}
	var places []string
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		places = append(places, place)
		next := killNode(t, dir)
		found, err := next.plugin.ConstructVolumeSpec(t.Context(), "v", mounter.GetPath())
		ready := readyVolume{dir: mounter.GetPath(), medium: medium, mode: mode, filled: verb == "down"}
		if err == nil {
			requireWhole(t, next, ready, place)
			require.Equal(t, medium, found.Spec.Volume.EmptyDir.Medium, place)
		}
		if verb != "down" {
			require.NoError(t, next.mounter(t, onMedium(medium)).SetUp(t.Context(), args), place)
			requireWhole(t, next, ready, place)
		}
		require.NoError(t, next.unmounter(t).TearDown(t.Context()), place)
		requireNothing(t, next, place)
		for _, name := range precious {
			text, err := os.ReadFile(name)
			require.NoError(t, err, place)
			require.Equal(t, "precious", string(text), place)
		}
	})
	t.Logf("killed at %d places: %v", kills, places)
	require.Positive(t, kills)
	if !testing.Short() {
		require.GreaterOrEqual(t, kills, 6)
	}
}

// fill creates files in a volume, and links that lead out of it.
func fill(t *testing.T, medium v1.StorageMedium, dir, outside string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir+"/a/b", 0o755))
	require.NoError(t, os.Mkdir(dir+"/lost+found", 0o700))
	create(t, dir+"/a/file")
	if medium != "HugePages-2Mi" { // hugetlbfs has no links
		require.NoError(t, os.Symlink(outside, dir+"/a/b/link"))
	}
	if err := os.Link(outside+"/precious", dir+"/hard"); err != nil { // another file system
		create(t, dir+"/hard")
	}
}

// create creates an empty file, also in hugetlbfs, which does not support write(2).
func create(t *testing.T, name string) {
	t.Helper()
	f, err := os.Create(name)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A readyVolume is a volume with a note that the volume is ready.
type readyVolume struct {
	dir    string
	medium v1.StorageMedium
	mode   os.FileMode
	filled bool // with the files of fill
}

// requireWhole verifies the mode and the mount of a volume, and the pod's files.
func requireWhole(t *testing.T, n *node, v readyVolume, place string) {
	t.Helper()
	info, err := os.Stat(v.dir)
	require.NoError(t, err, place)
	require.Equal(t, v.mode, info.Mode(), place)
	mounted, err := n.IsMountPoint(t.Context(), v.dir)
	require.NoError(t, err, place)
	require.Equal(t, v.medium != "", mounted, place)
	if v.filled {
		require.FileExists(t, v.dir+"/a/file", place)
		require.FileExists(t, v.dir+"/hard", place)
	}
}

// requireNothing verifies that only the pod's own directories are left.
func requireNothing(t *testing.T, n *node, place string) {
	t.Helper()
	list, err := n.List(t.Context())
	require.NoError(t, err, place)
	for _, info := range list {
		require.False(t, strings.HasPrefix(info.Mountpoint, n.dir+"/"), "%s: %s is still mounted", place, info.Mountpoint)
	}
	left, err := filepath.Glob(n.dir + "/staging/*")
	require.NoError(t, err)
	require.Empty(t, left, "%s: staging areas are left", place)
	volumes := n.host.Root() + "/pods/1/volumes/kubernetes.io~empty-dir"
	require.NoError(t, filepath.WalkDir(n.host.Root(), func(p string, _ os.DirEntry, err error) error {
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(volumes+"/", p+"/"), "%s: %s is left", place, p)
		return nil
	}))
}
