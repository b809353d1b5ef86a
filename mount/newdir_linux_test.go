package mount

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/record"
	"golang.org/x/sys/unix"
)

// newDirs has a tmpfs with sources, a tmpfs for targets, and a mounter.
type newDirs struct {
	t            *testing.T
	m            *Mounter
	disk, target string // the source tmpfs; a directory that MountNew creates
}

func newDirsInNamespace(t *testing.T) (d newDirs, ok bool) {
	if !inNamespace(t) {
		return d, false
	}
	if !HasStatmount() {
		return d, false // MountNew declines on such kernels
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	d = newDirs{t: t, m: New(Config{}), disk: dir + "/disk", target: dir + "/pods/target"}
	for _, at := range []string{d.disk, dir + "/pods"} {
		require.NoError(t, os.Mkdir(at, 0o755))
		require.NoError(t, unix.Mount("x", at, "tmpfs", 0, ""))
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	}
	require.NoError(t, os.Mkdir(d.disk+"/source", 0o755))
	require.NoError(t, os.WriteFile(d.disk+"/source/file", nil, 0o600))
	t.Cleanup(func() { require.NoError(t, d.m.Close()) })
	return d, true
}

func (d newDirs) request() Request {
	return Request{Source: d.disk + "/source", Target: d.target, Options: []string{"ro"}}
}

func (d newDirs) remove(wait Patience) [2]bool {
	unmounted, removed := d.m.UnmountRemove(d.t.Context(), d.target, wait)
	return [2]bool{unmounted, removed}
}

func (d newDirs) isMounted() bool {
	is, err := d.m.IsMountPoint(d.t.Context(), d.target)
	return is && err == nil
}

func TestMountNew(t *testing.T) {
	d, ok := newDirsInNamespace(t)
	if !ok {
		return
	}
	for _, wait := range []Patience{NoWait, MayWait} {
		mounted, err := d.m.MountNew(t.Context(), d.request(), NewDirectory{Perm: 0o750, Wait: wait})
		require.NoError(t, err)
		require.True(t, mounted)
		require.FileExists(t, d.target+"/file")
		require.ErrorIs(t, os.WriteFile(d.target+"/file", nil, 0o600), unix.EROFS)
		require.NoError(t, d.m.Mount(t.Context(), d.request()), "Mount accepts the mount as its own")
		require.Equal(t, [2]bool{true, true}, d.remove(wait))
		require.NoDirExists(t, d.target)
		require.Equal(t, [2]bool{false, true}, d.remove(wait), "the directory is missing")
		require.NoError(t, os.Mkdir(d.target, 0o755))
		require.Equal(t, [2]bool{false, true}, d.remove(wait), "the directory is no mount point")
	}
}

// TestMountNewDeclines: MountNew and UnmountRemove return false without a change outside of the
// common case.
func TestMountNewDeclines(t *testing.T) {
	d, ok := newDirsInNamespace(t)
	if !ok {
		return
	}
	pods := filepath.Dir(d.target)
	require.NoError(t, os.Symlink(d.disk, pods+"/link"))
	require.NoError(t, os.Symlink(d.disk+"/source", d.disk+"/link"))
	require.NoError(t, os.MkdirAll(pods+"/full/inner", 0o755))
	require.NoError(t, os.MkdirAll(d.disk+"/crowded/inner", 0o755))
	require.NoError(t, unix.Mount("x", d.disk+"/crowded/inner", "tmpfs", 0, ""))
	before := d.entries()
	for name, change := range map[string]func(*Request){
		"target exists":        func(r *Request) { r.Target = pods + "/full" },
		"parent is missing":    func(r *Request) { r.Target = pods + "/none/target" },
		"parent is a link":     func(r *Request) { r.Target = pods + "/link/target" },
		"target is a link":     func(r *Request) { r.Target = pods + "/link" },
		"source is missing":    func(r *Request) { r.Source = d.disk + "/none" },
		"source is a file":     func(r *Request) { r.Source = d.disk + "/source/file" },
		"source is a link":     func(r *Request) { r.Source = d.disk + "/link" },
		"mounts below":         func(r *Request) { r.Source = d.disk + "/crowded" },
		"invalid option":       func(r *Request) { r.Options = []string{"X-none"} },
		"a file system":        func(r *Request) { r.FSType = "tmpfs" },
		"stacked":              func(r *Request) { r.Stack = true },
		"remount":              func(r *Request) { r.Remount, r.Source = true, "" },
		"parent's name is bad": func(r *Request) { r.Target = "/" },
	} {
		req := d.request()
		change(&req)
		for _, wait := range []Patience{NoWait, MayWait} {
			mounted, err := d.m.MountNew(t.Context(), req, NewDirectory{Perm: 0o750, Wait: wait})
			require.NoError(t, err, name)
			require.False(t, mounted, name)
			require.Equal(t, before, d.entries(), name)
		}
	}
	unlock, err := d.m.changing.Lock(t.Context(), d.target)
	require.NoError(t, err)
	mounted, err := d.m.MountNew(t.Context(), d.request(), NewDirectory{Perm: 0o750, Wait: MayWait})
	require.NoError(t, err)
	require.False(t, mounted, "the target is locked")
	require.Equal(t, [2]bool{}, d.remove(MayWait), "the target is locked")
	unlock()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	mounted, err = d.m.MountNew(ended, d.request(), NewDirectory{Perm: 0o750, Wait: MayWait})
	require.NoError(t, err)
	require.False(t, mounted)
	require.Equal(t, before, d.entries())
	for _, target := range []string{pods + "/full", pods + "/link", pods + "/link/source", pods + "/none/x", "/", "pods"} {
		unmounted, removed := d.m.UnmountRemove(t.Context(), target, MayWait)
		require.False(t, unmounted || removed, target)
	}
	require.Equal(t, before, d.entries())
	require.NoError(t, unix.Unmount(d.disk+"/crowded/inner", 0))
}

func (d newDirs) entries() (names []string) {
	for _, dir := range []string{d.disk, filepath.Dir(d.target)} {
		require.NoError(d.t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			names = append(names, path)
			return err
		}))
	}
	return names
}

// TestMountNewParents: the missing parents get the permissions of the target, and stay when it is
// removed.
func TestMountNewParents(t *testing.T) {
	d, ok := newDirsInNamespace(t)
	if !ok {
		return
	}
	pods := filepath.Dir(d.target)
	d.target = pods + "/one/two/target"
	mounted, err := d.m.MountNew(t.Context(), d.request(), NewDirectory{Perm: 0o710, Below: pods})
	require.NoError(t, err)
	require.True(t, mounted)
	require.FileExists(t, d.target+"/file")
	require.Equal(t, [2]bool{true, true}, d.remove(NoWait))
	for _, name := range []string{"/one", "/one/two"} {
		info, err := os.Stat(pods + name)
		require.NoError(t, err)
		require.Equal(t, fs.ModeDir|0o710, info.Mode())
	}
}

// TestNoWaitOnDisk: with NoWait the calls decline a target on a disk.
func TestNoWaitOnDisk(t *testing.T) {
	d, ok := newDirsInNamespace(t)
	if !ok {
		return
	}
	delete(record.MemoryKinds, unix.TMPFS_MAGIC)
	defer func() { record.MemoryKinds[unix.TMPFS_MAGIC] = true }()
	mounted, err := d.m.MountNew(t.Context(), d.request(), NewDirectory{Perm: 0o750})
	require.ErrorIs(t, err, ErrWouldWait)
	require.False(t, mounted)
	require.NoDirExists(t, d.target)
	exists := d.request()
	exists.Target = filepath.Dir(d.target) + "/existing"
	require.NoError(t, os.Mkdir(exists.Target, 0o750))
	mounted, err = d.m.MountNew(t.Context(), exists, NewDirectory{Perm: 0o750})
	require.NoError(t, err, "declined at once")
	require.False(t, mounted)
	mounted, err = d.m.MountNew(t.Context(), d.request(), NewDirectory{Perm: 0o750, Wait: MayWait})
	require.NoError(t, err)
	require.True(t, mounted)
	require.Equal(t, [2]bool{}, d.remove(NoWait))
	require.True(t, d.isMounted())
	require.Equal(t, [2]bool{true, true}, d.remove(MayWait))
}

// TestUnmountRemoveKeepsMounts: a busy mount and the last mount of a file system stay. The mount
// below an unmounted one becomes visible.
func TestUnmountRemoveKeepsMounts(t *testing.T) {
	d, ok := newDirsInNamespace(t)
	if !ok {
		return
	}
	require.NoError(t, os.Mkdir(d.target, 0o755))
	require.NoError(t, d.m.Mount(t.Context(), Request{Source: "last", Target: d.target, FSType: "tmpfs"}))
	for _, wait := range []Patience{NoWait, MayWait} {
		require.Equal(t, [2]bool{}, d.remove(wait), "the last mount of the file system")
		require.True(t, d.isMounted())
	}
	bind := d.request()
	bind.Stack = true
	require.NoError(t, d.m.Mount(t.Context(), bind))
	require.Equal(t, [2]bool{true, false}, d.remove(NoWait))
	require.True(t, d.isMounted())
	require.NoFileExists(t, d.target+"/file")
	require.NoError(t, d.m.Mount(t.Context(), bind))
	open, err := os.Open(d.target)
	require.NoError(t, err)
	require.Equal(t, [2]bool{}, d.remove(MayWait), "the mount is busy")
	require.FileExists(t, d.target+"/file")
	require.NoError(t, open.Close())
	require.NoError(t, d.m.UnmountTree(t.Context(), d.target))
	require.NoError(t, d.m.Unmount(t.Context(), d.target))
	require.NoError(t, d.m.Mount(t.Context(), d.request()))
	require.Equal(t, [2]bool{true, true}, d.remove(MayWait))
}
