package content_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) {
	up := func(p mounttest.Process) {
		mounter := killNode(p, p.Args[0], 2).mounter(p, kinds[p.Args[1]].good)
		require.NoError(p, mounter.SetUp(context.Background(), volume.MounterArgs{}))
	}
	mounttest.Main(m, map[string]func(mounttest.Process){
		"up":     up,
		"update": up,
		"down": func(p mounttest.Process) {
			require.NoError(p, killNode(p, p.Args[0], 2).unmounter(p, kinds[p.Args[1]].good).TearDown(context.Background()))
		},
	})
}

// killNode is a node whose objects are of a generation.
func killNode(t require.TestingT, dir string, generation int) *node {
	n := nodeIn(t, dir, mount.New(mount.Config{StagingDir: dir + "/staging"}), nil)
	text := fmt.Sprint("generation ", generation)
	n.SetConfigMap(&v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "config"},
		Data:       map[string]string{"a": text, "b": text, "only-" + fmt.Sprint(generation): text},
	})
	n.SetSecret(&v1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "login"},
		StringData: map[string]string{"user": text, "password": text},
	})
	n.SetToken("ns", "robot", []byte(text))
	n.pod.Labels = map[string]string{"is": text}
	return n
}

// TestKilled kills the process at every place of a SetUp, of a SetUp that updates a volume,
// and of a TearDown. A volume that is recorded as up must be complete and of one generation;
// the same call must finish afterwards and leave nothing behind.
func TestKilled(t *testing.T) {
	short := map[string]string{"configMap": "up", "secret": "update", "projected": "down"}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for _, verb := range []string{"up", "update", "down"} {
			if !testbed.Long() && short[kind] != verb {
				continue
			}
			t.Run(kind+"/"+verb, func(t *testing.T) {
				if mounttest.Namespace(t) {
					testKilled(t, kind, verb)
				}
			})
		}
	}
}

func testKilled(t *testing.T, kind, verb string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	source := kinds[kind].good
	first := killNode(t, dir, 1)
	path := first.mounter(t, source).GetPath()
	program := func() *exec.Cmd {
		first.tearDown(t, source)
		require.NoError(t, os.RemoveAll(first.host.Root()+"/pods")) // nothing is mounted in it
		if verb != "up" {
			first.setUpAndRead(t, source, volume.MounterArgs{})
		}
		return mounttest.Program(verb, dir, kind)
	}
	seen := map[string]int{}
	kills := mounttest.KillAtEachCall(t, program, func(place string) {
		next := killNode(t, dir, 2)
		plugin, err := next.plugins.FindPluginBySpec(volume.NewSpecFromVolume(&v1.Volume{Name: "v", VolumeSource: source}))
		require.NoError(t, err)
		found, err := plugin.ConstructVolumeSpec(t.Context(), "v", path)
		if err == nil {
			require.Equal(t, source, found.Spec.Volume.VolumeSource, place)
			seen[generationOf(t, path, place)]++
		} else {
			require.NotEqual(t, "update", verb, "%s: %v", place, err)
		}
		if verb != "down" {
			require.NoError(t, next.mounter(t, source).SetUp(t.Context(), volume.MounterArgs{}), place)
			require.Equal(t, "generation 2", generationOf(t, path, place), place)
			hidden, err := filepath.Glob(path + "/..*")
			require.NoError(t, err)
			require.Len(t, hidden, 2, "%s: left over of sets: %v", place, hidden)
		}
		require.NoError(t, next.unmounter(t, source).TearDown(t.Context()), place)
		requireNothing(t, dir, place)
	})
	t.Logf("killed at %d places, with these up: %v", kills, seen)
	require.Positive(t, kills)
	if !testing.Short() {
		require.GreaterOrEqual(t, kills, 6)
		require.NotEmpty(t, seen)
	}
}

// generationOf checks that all files that have a generation have the same.
func generationOf(t *testing.T, dir, place string) string {
	t.Helper()
	is := ""
	for name, text := range setOf(t, dir) {
		if !strings.HasPrefix(text, "generation") {
			continue
		}
		if is == "" {
			is = text
		}
		require.Equal(t, is, text, "%s: %s", place, name)
	}
	require.NotEmpty(t, is, place)
	return is
}

// requireNothing: no mount, no directory of the volume, no note about it.
func requireNothing(t *testing.T, dir, place string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	require.NotContains(t, string(mounts), dir, place)
	left, err := filepath.Glob(dir + "/staging/*")
	require.NoError(t, err)
	require.Empty(t, left, "%s: staging areas are left", place)
	require.NoError(t, filepath.WalkDir(dir+"/root", func(name string, entry os.DirEntry, err error) error {
		require.True(t, err != nil || entry.IsDir() && entry.Name() != "v", "%s: %s is left", place, name)
		return err
	}))
}

// TestLeftovers: what cannot be removed of the old files does not keep the new ones from
// coming, and the error says that something has changed.
func TestLeftovers(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n, source := killNode(t, dir, 1), kinds["secret"].good
	n.setUpAndRead(t, source, volume.MounterArgs{})
	m := mount.New(mount.Config{})
	old, err := filepath.EvalSymlinks(n.mounter(t, source).GetPath() + "/a")
	require.NoError(t, err)
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "tmpfs", FSType: "tmpfs", Target: old}))

	next := killNode(t, dir, 2).mounter(t, source)
	for range 2 {
		err = next.SetUp(t.Context(), volume.MounterArgs{})
		require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
		require.Equal(t, "generation 2", generationOf(t, next.GetPath(), ""))
	}
	require.NoError(t, m.Unmount(t.Context(), old))
	require.NoError(t, next.SetUp(t.Context(), volume.MounterArgs{}))
	n.tearDown(t, source)
	requireNothing(t, dir, "")
}
