package util

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const dirsPlugin = "example.com/dirs"

// A dirsNode is a host with one volume of a pod.
type dirsNode struct {
	*PodDirs
	host *volume.Host
	dir  string // of the volume
	note string
}

func newDirsNode(t *testing.T, m mount.Interface) *dirsNode {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	host, err := volume.NewHost(root, volume.WithNodeName("node"))
	require.NoError(t, err)
	dir, err := host.PodVolumeDir("uid", dirsPlugin, "v")
	require.NoError(t, err)
	own, err := host.PodPluginDir("uid", dirsPlugin)
	require.NoError(t, err)
	n := &dirsNode{NewPodDirs(host, m, dirsPlugin), host, dir, own + "/v/ready"}
	t.Cleanup(func() { _ = n.TearDown(context.Background(), dir) })
	return n
}

// onEachDirs runs a test of plain volumes and of those in memory, on both kernels.
func onEachDirs(t *testing.T, test func(t *testing.T, n *dirsNode, want PodDir)) {
	inMemory := PodDir{Mode: 0o777, Mount: &mount.Request{Source: "tmpfs", FSType: "tmpfs", Options: []string{"size=1m"}}}
	for name, want := range map[string]PodDir{"plain": {Mode: 0o777}, "memory": inMemory} {
		t.Run(name+"/fake", func(t *testing.T) { test(t, newDirsNode(t, mounttest.NewFake(mount.Config{})), want) })
		t.Run(name+"/real", func(t *testing.T) {
			if mounttest.Namespace(t) {
				test(t, newDirsNode(t, mount.New(mount.Config{})), want)
			}
		})
	}
}

func (n *dirsNode) requireGone(t *testing.T) {
	t.Helper()
	require.NoDirExists(t, n.dir)
	require.NoDirExists(t, n.host.Root()+"/pods/uid/plugins")
	_, err := n.Find(t.Context(), n.dir)
	require.ErrorIs(t, err, volume.ErrNotMounted)
}

func TestPodDirs(t *testing.T) {
	onEachDirs(t, func(t *testing.T, n *dirsNode, want PodDir) {
		want.Mode |= fs.ModeSetgid
		want.Record = json.RawMessage(`{"a": 1}`)
		defer syscall.Umask(syscall.Umask(0o077))
		for range 2 {
			for range 2 {
				require.NoError(t, n.SetUp(t.Context(), n.dir, want))
				require.FileExists(t, n.note)
				info, err := os.Stat(n.dir)
				require.NoError(t, err)
				require.Equal(t, fs.ModeDir|fs.ModeSetgid|0o777, info.Mode())
				record, err := n.Find(t.Context(), n.dir)
				require.NoError(t, err)
				require.JSONEq(t, `{"a":1}`, string(record))
				metrics, err := n.GetMetrics(t.Context(), n.dir)
				require.NoError(t, err)
				require.Positive(t, metrics.Capacity.Value())
			}
			require.NoError(t, os.MkdirAll(n.dir+"/lost+found/x", 0o700))
			require.NoError(t, os.WriteFile(n.dir+"/file", nil, 0))
			for range 2 {
				require.NoError(t, n.TearDown(t.Context(), n.dir))
				n.requireGone(t)
			}
		}
	})
}

// What the directory is given when it is made is the pod's from then on.
func TestPodDirsLeavesWhatIsUp(t *testing.T) {
	onEachDirs(t, func(t *testing.T, n *dirsNode, want PodDir) {
		require.NoError(t, n.SetUp(t.Context(), n.dir, want))
		require.NoError(t, os.Chmod(n.dir, 0o700))
		require.NoError(t, n.SetUp(t.Context(), n.dir, want))
		info, err := os.Stat(n.dir)
		require.NoError(t, err)
		require.Equal(t, fs.ModeDir|0o700, info.Mode())

		for name, change := range map[string]func(*PodDir){
			"record": func(d *PodDir) { d.Record = json.RawMessage(`"other"`) },
			"group":  func(d *PodDir) { d.Group = new(int64) },
			"kind": func(d *PodDir) {
				if d.Mount != nil {
					d.Mount = nil
				} else {
					d.Mount = &mount.Request{Source: "tmpfs", FSType: "tmpfs"}
				}
			},
		} {
			other := want
			change(&other)
			require.ErrorIs(t, n.SetUp(t.Context(), n.dir, other), volume.ErrAlreadyMounted, name)
		}
		require.NoError(t, n.SetUp(t.Context(), n.dir, want))
	})
}

func TestPodDirsFill(t *testing.T) {
	onEachDirs(t, func(t *testing.T, n *dirsNode, want PodDir) {
		broken := errors.New("broken")
		want.Fill = func(_ context.Context, dir string) error {
			require.NoFileExists(t, n.note, "it is not ready before it is filled")
			require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
			return broken
		}
		require.ErrorIs(t, n.SetUp(t.Context(), n.dir, want), broken)
		n.requireGone(t)
		require.NoDirExists(t, n.host.Root()+"/pods", "what it made is taken back")

		filled := 0
		want.Fill = func(context.Context, string) error { filled++; return nil }
		require.NoError(t, n.SetUp(t.Context(), n.dir, want))
		require.NoError(t, n.SetUp(t.Context(), n.dir, want))
		require.Equal(t, 2, filled, "also while it is up")
		want.Fill = func(context.Context, string) error { return broken }
		require.ErrorIs(t, n.SetUp(t.Context(), n.dir, want), broken)
		_, err := n.Find(t.Context(), n.dir)
		require.NoError(t, err, "a volume that was up stays up")
	})
}

// A directory that is there, without a note, is somebody's who has not come to the end.
func TestPodDirsGoesOn(t *testing.T) {
	n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
	require.NoError(t, os.MkdirAll(n.dir, 0o700))
	require.NoError(t, os.WriteFile(n.dir+"/file", nil, 0o600))
	_, err := n.Find(t.Context(), n.dir)
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.NoError(t, n.SetUp(t.Context(), n.dir, PodDir{Mode: 0o750}))
	require.FileExists(t, n.dir+"/file")
	require.NoError(t, os.Remove(n.note))
	require.NoError(t, n.TearDown(t.Context(), n.dir))
	n.requireGone(t)
}

// A note that is torn is no reason to remove anything, nor to fail.
func TestPodDirsTornNote(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "torn": `{"mounted":tr`, "other": `[1]`} {
		t.Run(name, func(t *testing.T) {
			n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
			want := PodDir{Mode: 0o750}
			require.NoError(t, n.SetUp(t.Context(), n.dir, want))
			require.NoError(t, os.WriteFile(n.dir+"/file", nil, 0o600))
			require.NoError(t, os.WriteFile(n.note, []byte(text), 0o600))
			_, err := n.Find(t.Context(), n.dir)
			require.ErrorIs(t, err, volume.ErrUncertain)
			require.ErrorContains(t, err, n.note)
			require.NoError(t, n.SetUp(t.Context(), n.dir, want))
			require.FileExists(t, n.dir+"/file")
			_, err = n.Find(t.Context(), n.dir)
			require.NoError(t, err)
		})
	}
}

// A directory in a note's place is no note. One that is not empty cannot be removed, and
// keeps the volume as it is.
func TestPodDirsDirectoryForNote(t *testing.T) {
	for _, name := range []string{readyName, newName} {
		n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
		require.NoError(t, n.SetUp(t.Context(), n.dir, PodDir{Mode: 0o700}))
		require.NoError(t, os.WriteFile(n.dir+"/file", nil, 0o600))
		inPlace := filepath.Dir(n.note) + "/" + name
		require.NoError(t, os.RemoveAll(inPlace))
		require.NoError(t, os.MkdirAll(inPlace+"/sub", 0o700))
		before := openBelow(t, n.dir)
		for range 3 {
			err := n.TearDown(t.Context(), n.dir)
			require.ErrorIs(t, err, syscall.ENOTEMPTY)
			require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
			require.NotErrorIs(t, err, errBegun)
			require.FileExists(t, n.dir+"/file")
		}
		require.Equal(t, before, openBelow(t, n.dir), "descriptors of the volume")
		if name == newName {
			require.FileExists(t, n.note, "it is as ready as before")
		}
		require.NoError(t, os.Remove(inPlace+"/sub"))
		require.NoError(t, n.TearDown(t.Context(), n.dir))
		n.requireGone(t)
	}
}

// openBelow returns how many descriptors of this process are of what is at a path.
func openBelow(t *testing.T, dir string) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	count := 0
	for _, entry := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil && strings.HasPrefix(to+"/", dir+"/") {
			count++
		}
	}
	return count
}

// What is mounted in a volume is no part of it.
func TestPodDirsMountedInside(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m := mount.New(mount.Config{})
	n := newDirsNode(t, m)
	require.NoError(t, n.SetUp(t.Context(), n.dir, PodDir{Mode: 0o777}))
	outside, inside := filepath.Dir(n.host.Root())+"/outside", n.dir+"/a/b"
	for _, dir := range []string{outside, inside, n.dir + "/c"} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	require.NoError(t, os.WriteFile(outside+"/precious", nil, 0o600))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: outside, Target: inside}))
	for range 2 {
		err := n.TearDown(t.Context(), n.dir)
		require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
		var left *scrub.UnremovableError
		require.ErrorAs(t, err, &left)
		require.Equal(t, "a/b", left.Entries[0].Path)
		require.FileExists(t, outside+"/precious")
		require.NoDirExists(t, n.dir+"/c")
		_, err = n.Find(t.Context(), n.dir)
		require.ErrorIs(t, err, volume.ErrUncertain)
	}
	require.NoError(t, m.Unmount(t.Context(), inside))
	require.NoError(t, n.TearDown(t.Context(), n.dir))
	require.FileExists(t, outside+"/precious")
	n.requireGone(t)
}

// Something that is mounted on the directory is taken down, and lives on elsewhere.
func TestPodDirsMountedUpon(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m := mount.New(mount.Config{})
	n := newDirsNode(t, m)
	require.NoError(t, n.SetUp(t.Context(), n.dir, PodDir{Mode: 0o777}))
	outside := filepath.Dir(n.host.Root()) + "/outside"
	require.NoError(t, os.Mkdir(outside, 0o755))
	require.NoError(t, os.WriteFile(outside+"/precious", nil, 0o600))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: outside, Target: n.dir}))
	require.ErrorIs(t, n.SetUp(t.Context(), n.dir, PodDir{Mode: 0o777}), volume.ErrAlreadyMounted)
	_, err := n.Find(t.Context(), n.dir)
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.NoError(t, n.TearDown(t.Context(), n.dir))
	require.FileExists(t, outside+"/precious")
	n.requireGone(t)
}

// Between the look at the mount table and the opening of the directory somebody may
// mount something there: that must not be emptied.
func TestPodDirsPinsNoMount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m := mount.New(mount.Config{})
	n := newDirsNode(t, m)
	require.NoError(t, n.SetUp(t.Context(), n.dir, PodDir{Mode: 0o777}))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "tmpfs", FSType: "tmpfs", Target: n.dir}))
	v, err := n.at(t.Context(), n.dir)
	require.NoError(t, err)
	_, err = v.pin()
	require.ErrorIs(t, err, errOnTop)
}

// A directory of the plugin's own, or any other below the root, can be a volume, too.
func TestPodDirsElsewhere(t *testing.T) {
	n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
	for _, dir := range []string{"/plugins/example.com~dirs/mounts/v", "/pods/uid/else/v", "/x"} {
		dir = n.host.Root() + dir
		require.NoError(t, n.SetUp(t.Context(), dir, PodDir{Mode: 0o700}))
		require.NoError(t, n.SetUp(t.Context(), n.dir, PodDir{Mode: 0o700}), "one name, two places")
		require.NoError(t, n.TearDown(t.Context(), n.dir))
		_, err := n.Find(t.Context(), dir)
		require.NoError(t, err)
		require.NoError(t, n.TearDown(t.Context(), dir))
		require.NoDirExists(t, dir)
	}
	for _, bad := range []string{"", "/", "x", n.host.Root(), n.host.Root() + "/../x"} {
		var invalid *field.Error
		require.ErrorAs(t, n.SetUp(t.Context(), bad, PodDir{}), &invalid)
		require.ErrorAs(t, n.TearDown(t.Context(), bad), &invalid)
	}
	for _, id := range []int64{-1, 1<<32 - 1, 1 << 40} {
		var invalid *field.Error
		require.ErrorAs(t, n.SetUp(t.Context(), n.dir, PodDir{Group: &id}), &invalid)
	}
	require.NoDirExists(t, n.dir)
}

// What is not known to be a volume is not emptied, whatever path is given.
func TestPodDirsKeepsWhatIsNoVolume(t *testing.T) {
	for name, dir := range map[string]string{
		"all pods":          "/pods",
		"a pod":             "/pods/other",
		"all volumes":       "/pods/other/volumes",
		"all of the plugin": "/pods/other/volumes/example.com~dirs",
		"part of a volume":  "/pods/other/volumes/example.com~dirs/v/data",
		"another plugin's":  "/pods/other/volumes/example.com~else/v",
		"all plugins":       "/plugins",
		"anything else":     "/x",
	} {
		t.Run(name, func(t *testing.T) {
			n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
			dir := n.host.Root() + dir
			require.NoError(t, os.MkdirAll(dir+"/sub", 0o755))
			require.NoError(t, os.WriteFile(dir+"/sub/precious", nil, 0o600))
			err := n.TearDown(t.Context(), dir)
			require.ErrorIs(t, err, syscall.ENOTEMPTY)
			require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
			require.ErrorIs(t, n.SetUp(t.Context(), dir, PodDir{Mode: 0o700, Fill: failToFill}), errNotFilled)
			require.ErrorIs(t, n.TearDown(t.Context(), dir), syscall.ENOTEMPTY, "it has not been a volume since")
			require.FileExists(t, dir+"/sub/precious")

			require.NoError(t, os.RemoveAll(dir+"/sub"))
			require.NoError(t, n.TearDown(t.Context(), dir))
			require.NoDirExists(t, dir)
		})
	}
}

var errNotFilled = errors.New("not filled")

func failToFill(context.Context, string) error { return errNotFilled }

// A volume in another place is known as one from the first instant to the last.
func TestPodDirsElsewhereInterrupted(t *testing.T) {
	for _, up := range []bool{true, false} {
		n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
		dir := n.host.Root() + "/x"
		v, err := n.at(t.Context(), dir)
		require.NoError(t, err)
		if up { // it has been, until somebody began to take it down
			require.NoError(t, n.SetUp(t.Context(), dir, PodDir{Mode: 0o700}))
			require.NoError(t, v.notes.unready())
		} else {
			is, err := v.look()
			require.NoError(t, err)
			_, err = v.make(is, PodDir{})
			require.NoError(t, err)
		}
		require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
		require.ErrorIs(t, n.SetUp(t.Context(), dir, PodDir{Mode: 0o700, Fill: failToFill}), errNotFilled)
		require.FileExists(t, dir+"/file")
		require.NoError(t, n.TearDown(t.Context(), dir))
		require.NoDirExists(t, dir)
		require.NoDirExists(t, v.notes.dir)
	}
}

// A file or a link in the directory's place stays, and so does what it leads to.
func TestPodDirsNoDirectory(t *testing.T) {
	n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/precious", nil, 0o600))
	require.NoError(t, os.MkdirAll(filepath.Dir(n.dir), 0o750))
	for _, put := range []func() error{
		func() error { return os.Symlink(outside, n.dir) },
		func() error { return os.WriteFile(n.dir, nil, 0o600) },
	} {
		require.NoError(t, put())
		require.Error(t, n.SetUp(t.Context(), n.dir, PodDir{Mode: 0o777}))
		err := n.TearDown(t.Context(), n.dir)
		require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
		require.FileExists(t, outside+"/precious")
		_, err = os.Lstat(n.dir)
		require.NoError(t, err)
		require.NoError(t, os.Remove(n.dir))
	}
}

func TestPodDirsEndedContext(t *testing.T) {
	onEachDirs(t, func(t *testing.T, n *dirsNode, want PodDir) {
		ctx, cancel := context.WithCancel(t.Context())
		want.Fill = func(context.Context, string) error { cancel(); return nil }
		err := n.SetUp(ctx, n.dir, want)
		require.ErrorIs(t, err, context.Canceled)
		if volume.KindOf(err) == volume.Transient { // else there was no time to take it back
			n.requireGone(t)
		}
		want.Fill = nil
		require.NoError(t, n.SetUp(t.Context(), n.dir, want))
		require.ErrorIs(t, n.TearDown(ctx, n.dir), context.Canceled)
		_, err = n.Find(t.Context(), n.dir)
		require.NoError(t, err)
		_, err = n.Find(ctx, n.dir)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, n.TearDown(t.Context(), n.dir))
	})
}
