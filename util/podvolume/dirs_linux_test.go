package podvolume

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
	*Dirs
	host *volume.Host
	dir  string // of the volume
	note string
}

func newDirsNode(t *testing.T, m mount.Interface) *dirsNode {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	host, err := volume.NewHost(t.Context(), root, volume.WithNodeName("node"))
	require.NoError(t, err)
	dir, err := host.PodVolumeDir("uid", dirsPlugin, "v")
	require.NoError(t, err)
	own, err := host.PodPluginDir("uid", dirsPlugin)
	require.NoError(t, err)
	n := &dirsNode{NewDirs(host, m, dirsPlugin), host, dir, own + "/v/ready"}
	t.Cleanup(func() { _ = n.TearDown(context.Background(), dir) })
	return n
}

// onEachDirs runs a test of plain volumes and of those in memory, on both kernels.
func onEachDirs(t *testing.T, test func(t *testing.T, n *dirsNode, want Dir)) {
	inMemory := Dir{Mode: 0o777, Mount: &mount.Request{Source: "tmpfs", FSType: "tmpfs", Options: []string{"size=1m"}}}
	for name, want := range map[string]Dir{"plain": {Mode: 0o777}, "memory": inMemory} {
		t.Run(name+"/fake", func(t *testing.T) { test(t, newDirsNode(t, mounttest.NewFake(mount.Config{})), want) })
		t.Run(name+"/files", func(t *testing.T) {
			notesInFiles(t)
			test(t, newDirsNode(t, mounttest.NewFake(mount.Config{})), want)
		})
		t.Run(name+"/real", func(t *testing.T) {
			if mounttest.Namespace(t) {
				test(t, newDirsNode(t, mount.New(mount.Config{})), want)
			}
		})
	}
}

// notesInFiles makes a test one of a process that may not set attributes.
func notesInFiles(t *testing.T) {
	withoutMarks = true
	t.Cleanup(func() { withoutMarks = false })
}

// isNoted reports whether there is a note, of either kind.
func (n *dirsNode) isNoted(t *testing.T) bool {
	t.Helper()
	v, err := n.podDirAt(n.dir)
	require.NoError(t, err)
	_, err = v.notes.read()
	require.True(t, err == nil || errors.Is(err, fs.ErrNotExist), "%v", err)
	return err == nil
}

func (n *dirsNode) requireGone(t *testing.T) {
	t.Helper()
	require.NoDirExists(t, n.dir)
	require.NoDirExists(t, n.host.Root()+"/pods/uid/plugins")
	_, err := n.Find(t.Context(), n.dir)
	require.ErrorIs(t, err, volume.ErrNotMounted)
}

func TestPodDirs(t *testing.T) {
	onEachDirs(t, func(t *testing.T, n *dirsNode, want Dir) {
		want.Mode |= fs.ModeSetgid
		want.Record = json.RawMessage(`{"a": 1}`)
		defer syscall.Umask(syscall.Umask(0o077))
		for range 2 {
			for range 2 {
				require.NoError(t, n.SetUp(t.Context(), n.dir, want))
				require.True(t, n.isNoted(t))
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

// Owner and mode are set when the directory is created; later they are the pod's.
// TestPodDirsMode: set-group-ID and the like come as Go or as the kernel writes them, and
// what else is in a mode is refused.
func TestPodDirsMode(t *testing.T) {
	n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
	for written, want := range map[fs.FileMode]fs.FileMode{
		0o2775:                                0o775 | fs.ModeSetgid,
		0o775 | fs.ModeSetgid:                 0o775 | fs.ModeSetgid,
		0o1777:                                0o777 | fs.ModeSticky,
		0o7700 | fs.ModeSticky:                0o700 | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky,
		0o700 | fs.ModeSetuid | fs.ModeSticky: 0o700 | fs.ModeSetuid | fs.ModeSticky,
	} {
		require.NoError(t, n.SetUp(t.Context(), n.dir, Dir{Mode: written}))
		info, err := os.Stat(n.dir)
		require.NoError(t, err)
		require.Equal(t, fs.ModeDir|want, info.Mode())
		require.NoError(t, n.TearDown(t.Context(), n.dir))
	}
	for _, mode := range []fs.FileMode{0o10777, fs.ModeDir | 0o755, fs.ModeSymlink, fs.ModeAppend} {
		var refused *field.Error
		require.ErrorAs(t, n.SetUp(t.Context(), n.dir, Dir{Mode: mode}), &refused)
		require.NoDirExists(t, n.dir)
	}
}

func TestPodDirsKeepsMountedVolume(t *testing.T) {
	onEachDirs(t, func(t *testing.T, n *dirsNode, want Dir) {
		require.NoError(t, n.SetUp(t.Context(), n.dir, want))
		require.NoError(t, os.Chmod(n.dir, 0o700))
		require.NoError(t, n.SetUp(t.Context(), n.dir, want))
		info, err := os.Stat(n.dir)
		require.NoError(t, err)
		require.Equal(t, fs.ModeDir|0o700, info.Mode())

		for name, change := range map[string]func(*Dir){
			"record": func(d *Dir) { d.Record = json.RawMessage(`"other"`) },
			"group":  func(d *Dir) { d.Group = new(int64) },
			"kind": func(d *Dir) {
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
	onEachDirs(t, func(t *testing.T, n *dirsNode, want Dir) {
		broken := errors.New("broken")
		want.Fill = func(_ context.Context, dir string) error {
			require.False(t, n.isNoted(t), "it is not ready before it is filled")
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

// A directory without a note belongs to an interrupted set-up or tear-down.
func TestPodDirsResumes(t *testing.T) {
	notesInFiles(t)
	n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
	require.NoError(t, os.MkdirAll(n.dir, 0o700))
	require.NoError(t, os.WriteFile(n.dir+"/file", nil, 0o600))
	_, err := n.Find(t.Context(), n.dir)
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.NoError(t, n.SetUp(t.Context(), n.dir, Dir{Mode: 0o750}))
	require.FileExists(t, n.dir+"/file")
	require.NoError(t, os.Remove(n.note))
	require.NoError(t, n.TearDown(t.Context(), n.dir))
	n.requireGone(t)
}

// A note that is torn is no reason to remove anything, nor to fail.
func TestPodDirsTornNote(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "torn": `{"mounted":tr`, "other": `[1]`} {
		t.Run(name, func(t *testing.T) {
			notesInFiles(t)
			n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
			want := Dir{Mode: 0o750}
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
	notesInFiles(t)
	for _, name := range []string{readyName, newName} {
		n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
		require.NoError(t, n.SetUp(t.Context(), n.dir, Dir{Mode: 0o700}))
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

// openBelow returns the number of descriptors of this process at or below a path.
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

// A mount in a volume is no part of the volume.
func TestPodDirsMountedInside(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m := mount.New(mount.Config{})
	n := newDirsNode(t, m)
	require.NoError(t, n.SetUp(t.Context(), n.dir, Dir{Mode: 0o777}))
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
	require.NoError(t, n.SetUp(t.Context(), n.dir, Dir{Mode: 0o777}))
	outside := filepath.Dir(n.host.Root()) + "/outside"
	require.NoError(t, os.Mkdir(outside, 0o755))
	require.NoError(t, os.WriteFile(outside+"/precious", nil, 0o600))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: outside, Target: n.dir}))
	require.ErrorIs(t, n.SetUp(t.Context(), n.dir, Dir{Mode: 0o777}), volume.ErrAlreadyMounted)
	_, err := n.Find(t.Context(), n.dir)
	require.ErrorIs(t, err, volume.ErrUncertain)
	require.NoError(t, n.TearDown(t.Context(), n.dir))
	require.FileExists(t, outside+"/precious")
	n.requireGone(t)
}

// TestPodDirsPinsNoMount mounts a file system at the directory after the mount table was
// read and before the directory is opened: that mount must not be emptied.
func TestPodDirsPinsNoMount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	m := mount.New(mount.Config{})
	n := newDirsNode(t, m)
	require.NoError(t, n.SetUp(t.Context(), n.dir, Dir{Mode: 0o777}))
	v, err := n.podDirAt(n.dir)
	require.NoError(t, err)
	before, err := v.pin()
	require.NoError(t, err)
	defer before.close()
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "tmpfs", FSType: "tmpfs", Target: n.dir}))
	require.NoError(t, os.WriteFile(n.dir+"/precious", nil, 0o600))
	_, err = v.pin()
	require.ErrorIs(t, err, errOnTop)
	require.ErrorIs(t, v.empty(t.Context(), before), errOnTop)
	require.ErrorIs(t, before.rmdir(), syscall.EBUSY)
	require.FileExists(t, n.dir+"/precious")
}

// A directory of the plugin's own, or any other below the root, can be a volume, too.
func TestPodDirsAtTargetDirectory(t *testing.T) {
	n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
	for _, dir := range []string{"/plugins/example.com~dirs/mounts/v", "/pods/uid/else/v", "/x"} {
		dir = n.host.Root() + dir
		require.NoError(t, n.SetUp(t.Context(), dir, Dir{Mode: 0o700}))
		require.NoError(t, n.SetUp(t.Context(), n.dir, Dir{Mode: 0o700}), "one name, two places")
		require.NoError(t, n.TearDown(t.Context(), n.dir))
		_, err := n.Find(t.Context(), dir)
		require.NoError(t, err)
		require.NoError(t, n.TearDown(t.Context(), dir))
		require.NoDirExists(t, dir)
	}
	for _, bad := range []string{"", "/", "x", n.host.Root(), n.host.Root() + "/../x"} {
		var invalid *field.Error
		require.ErrorAs(t, n.SetUp(t.Context(), bad, Dir{}), &invalid)
		require.ErrorAs(t, n.TearDown(t.Context(), bad), &invalid)
	}
	for _, id := range []int64{-1, 1<<32 - 1, 1 << 40} {
		var invalid *field.Error
		require.ErrorAs(t, n.SetUp(t.Context(), n.dir, Dir{Group: &id}), &invalid)
	}
	require.NoDirExists(t, n.dir)
}

// A directory that is not known to be a volume is not emptied, at any path.
func TestPodDirsKeepsForeignDirectory(t *testing.T) {
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
			require.ErrorIs(t, n.SetUp(t.Context(), dir, Dir{Mode: 0o700, Fill: failToFill}), errNotFilled)
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
func TestPodDirsAtTargetInterrupted(t *testing.T) {
	for _, up := range []bool{true, false} {
		n := newDirsNode(t, mounttest.NewFake(mount.Config{}))
		dir := n.host.Root() + "/x"
		v, err := n.podDirAt(dir)
		require.NoError(t, err)
		if up { // until a tear-down began
			require.NoError(t, n.SetUp(t.Context(), dir, Dir{Mode: 0o700}))
			require.NoError(t, v.notes.removeNote())
		} else {
			is, err := v.readState(t.Context())
			require.NoError(t, err)
			_, err = v.make(t.Context(), is, Dir{})
			require.NoError(t, err)
		}
		require.NoError(t, os.WriteFile(dir+"/file", nil, 0o600))
		require.ErrorIs(t, n.SetUp(t.Context(), dir, Dir{Mode: 0o700, Fill: failToFill}), errNotFilled)
		require.FileExists(t, dir+"/file")
		require.NoError(t, n.TearDown(t.Context(), dir))
		require.NoDirExists(t, dir)
		require.NoDirExists(t, v.notes.dir)
	}
}

// A file or a link in the directory's place stays, and so does the link's target.
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
		require.Error(t, n.SetUp(t.Context(), n.dir, Dir{Mode: 0o777}))
		err := n.TearDown(t.Context(), n.dir)
		require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
		require.FileExists(t, outside+"/precious")
		_, err = os.Lstat(n.dir)
		require.NoError(t, err)
		require.NoError(t, os.Remove(n.dir))
	}
}

func TestPodDirsEndedContext(t *testing.T) {
	onEachDirs(t, func(t *testing.T, n *dirsNode, want Dir) {
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
