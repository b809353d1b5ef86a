package hostpath_test

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// things are what is on the node; block is there where the test is the machine's root.
func (n *node) things(t *testing.T, devices bool) []string {
	t.Helper()
	at := n.paths + "/"
	require.NoError(t, errors.Join(
		os.Mkdir(at+"dir", 0o755),
		os.WriteFile(at+"dir/in", []byte("in"), 0o644),
		os.WriteFile(at+"file", []byte("file"), 0o644),
		unix.Mknod(at+"socket", unix.S_IFSOCK|0o600, 0),
		unix.Mkfifo(at+"fifo", 0o600),
		os.Symlink("dir", at+"link"),
	))
	names := []string{"dir", "file", "socket", "fifo", "link", "none"}
	if devices {
		require.NoError(t, errors.Join(
			unix.Mknod(at+"char", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))), // zero
			unix.Mknod(at+"block", unix.S_IFBLK|0o600, int(unix.Mkdev(7, 9999))),
		))
		names = append(names, "char", "block")
	}
	return names
}

// takes says which things a type is content with; "none" if it creates one.
var takes = map[v1.HostPathType][]string{
	v1.HostPathUnset:             {"dir", "file", "socket", "fifo", "char", "block"},
	v1.HostPathDirectory:         {"dir"},
	v1.HostPathDirectoryOrCreate: {"dir", "none"},
	v1.HostPathFile:              {"file"},
	v1.HostPathFileOrCreate:      {"file", "none"},
	v1.HostPathSocket:            {"socket"},
	v1.HostPathCharDev:           {"char"},
	v1.HostPathBlockDev:          {"block"},
}

// TestTypes: each type takes what it says, refuses everything else, and leaves what was
// there and nothing besides.
func TestTypes(t *testing.T) {
	if mounttest.Namespace(t) {
		testTypes(t, false)
	}
}

// TestTypesWithDevices is for the machine's root, who can make devices.
func TestTypesWithDevices(t *testing.T) {
	if mounttest.RootNamespace(t) {
		testTypes(t, true)
	}
}

func testTypes(t *testing.T, devices bool) {
	for kind, good := range takes {
		n := newNode(t, mount.Config{Allow: mount.Allow{Dev: true}})
		for _, thing := range n.things(t, devices) {
			name := string(kind) + " " + thing
			target, err := n.up(inPod(n.paths+"/"+thing, kind))
			if !contains(good, thing) {
				var ofType *hostpath.TypeError
				require.ErrorAs(t, err, &ofType, name)
				require.Equal(t, volume.Transient, volume.KindOf(err), name)
				n.requireDown(t)
				continue
			}
			require.NoError(t, err, name)
			want, err := os.Stat(n.paths + "/" + thing)
			require.NoError(t, err, name)
			have, err := os.Stat(target)
			require.NoError(t, err, name)
			require.True(t, os.SameFile(want, have), name)
			_, err = n.up(inPod(n.paths+"/"+thing, kind))
			require.NoError(t, err, "%s: it is up already", name)
			require.Len(t, n.mounts(t), 1)
			n.requireFound(t, target, n.paths+"/"+thing)
			n.down(t)
			require.FileExists(t, n.paths+"/file")
			require.FileExists(t, n.paths+"/dir/in")
		}
	}
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

// requireFound checks that what is found after a restart is up as it says.
func (n *node) requireFound(t *testing.T, target, written string) {
	t.Helper()
	found, err := n.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
	require.NoError(t, err)
	require.NotNil(t, found.Volume, "%+v", found.PersistentVolume)
	require.Equal(t, written, found.Volume.HostPath.Path)
	_, err = n.up(found)
	require.NoError(t, err, "up already: %v", found.Volume.HostPath)
}

// TestCreated: with the modes that the types have, strictly below the root, and never
// through a link.
func TestCreated(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	defer unix.Umask(unix.Umask(0o022))
	n := newNode(t, mount.Config{})
	for name, test := range map[string]struct {
		kind v1.HostPathType
		mode fs.FileMode
	}{
		"/a/b/c": {v1.HostPathDirectoryOrCreate, fs.ModeDir | 0o755},
		"/f":     {v1.HostPathFileOrCreate, 0o644},
	} {
		_, err := n.up(inPod(n.paths+name, test.kind))
		require.NoError(t, err)
		info, err := os.Stat(n.paths + name)
		require.NoError(t, err)
		require.Equal(t, test.mode, info.Mode())
		n.down(t)
	}
	require.DirExists(t, n.paths+"/a/b/c", "what was created stays")
	require.FileExists(t, n.paths+"/f")

	outside := n.dir + "/outside"
	require.NoError(t, os.Mkdir(outside, 0o755))
	require.NoError(t, os.Symlink(outside, n.paths+"/link"))
	require.NoError(t, os.Symlink(outside+"/new", n.paths+"/dangling"))
	for _, name := range []string{"/link/x", "/link", "/dangling", "/dangling/x"} {
		for _, kind := range []v1.HostPathType{v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate, ""} {
			_, err := n.up(inPod(n.paths+name, kind))
			require.Error(t, err, name)
			n.requireDown(t)
		}
	}
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = n.up(inPod(n.paths+"/none/f", v1.HostPathFileOrCreate))
	require.ErrorIs(t, err, fs.ErrNotExist, "the parent of a file is not created")
}

// TestFailure: of a volume that does not come up the pod's place goes; what was created
// at its path stays, and is taken as it is by the next try.
func TestFailure(t *testing.T) {
	dir := t.TempDir()
	fake := mounttest.NewFake(mount.Config{})
	paths, err := os.MkdirTemp(dir, "paths")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/root", 0o755))
	host, err := volume.NewHost(dir + "/root")
	require.NoError(t, err)
	plugin := hostpath.New(hostpath.Config{Mounter: fake, Roots: []string{paths}})
	require.NoError(t, plugin.Init(host))
	for _, kind := range []v1.HostPathType{v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate} {
		fake.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: unix.EIO})
		name := paths + "/new"
		if kind == v1.HostPathDirectoryOrCreate {
			name += "/er"
		}
		m, err := plugin.NewMounter(inPod(name, kind), pod("1"))
		require.NoError(t, err)
		err = m.SetUp(t.Context(), volume.MounterArgs{})
		require.ErrorIs(t, err, unix.EIO)
		require.Equal(t, volume.Transient, volume.KindOf(err))
		_, err = os.Lstat(name)
		require.NoError(t, err)
		require.NoDirExists(t, host.Root()+"/pods")

		fake.ClearFaults()
		require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
		u, err := plugin.NewUnmounter("vol", "1")
		require.NoError(t, err)
		require.NoError(t, u.TearDown(t.Context()))
		require.NoError(t, os.RemoveAll(paths+"/new"))
		require.NoError(t, os.RemoveAll(host.Root()+"/pods"))
	}
}

// TestDevices: they can be used if the type says so and the mounter allows it, and
// otherwise not.
func TestDevices(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newNode(t, mount.Config{Allow: mount.Allow{Dev: true}})
	n.things(t, true)
	read := func(name string) error {
		f, err := os.Open(name)
		if err == nil {
			_, err = f.Read(make([]byte, 8))
			_ = f.Close()
		}
		return err
	}
	target, err := n.up(inPod(n.paths+"/char", v1.HostPathCharDev))
	require.NoError(t, err)
	require.NoError(t, read(target))
	n.down(t)
	target, err = n.up(inPod(n.paths+"/char", ""))
	require.NoError(t, err)
	require.ErrorIs(t, read(target), fs.ErrPermission, "nobody said that it is a device")
	n.down(t)

	strict := nodeIn(t, mount.New(mount.Config{}), n.dir)
	_, err = strict.up(inPod(n.paths+"/char", v1.HostPathCharDev))
	var refused *mount.InputError
	require.ErrorAs(t, err, &refused)
	n.requireDown(t)
}

// TestFiles: of volumes that are files, read-only ones are, what is in the place of a
// volume and is somebody's stays, and a path may become another kind of thing.
func TestFiles(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	n.things(t, false)
	file := inPod(n.paths+"/file", v1.HostPathFile)
	target, err := n.up(file, volume.MounterArgs{ReadOnly: true})
	require.NoError(t, err)
	require.ErrorIs(t, os.WriteFile(target, []byte("x"), 0o600), unix.EROFS)
	_, err = n.up(file)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	_, err = n.up(inPod(n.paths+"/dir", ""))
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	n.down(t)
	target, err = n.up(inPod(n.paths+"/dir", ""))
	require.NoError(t, err)
	_, err = n.up(file)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	n.down(t)

	// What an interrupted call has left of the other kind is no obstacle.
	require.NoError(t, os.Mkdir(target, 0o750))
	_, err = n.up(file)
	require.NoError(t, err)
	n.down(t)
	require.NoError(t, os.WriteFile(target, nil, 0o640))
	_, err = n.up(inPod(n.paths+"/dir", ""))
	require.NoError(t, err)
	n.down(t)

	// Somebody's data is.
	require.NoError(t, os.WriteFile(target, []byte("precious"), 0o640))
	_, err = n.up(inPod(n.paths+"/dir", ""))
	require.Error(t, err)
	require.Error(t, n.unmounter(t).TearDown(t.Context()))
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "precious", string(text))
}

// TestSubmounts are refused, and that is final, or part of the volume.
func TestSubmounts(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	n.things(t, false)
	inside := n.paths + "/dir/inside"
	require.NoError(t, os.Mkdir(inside, 0o755))
	require.NoError(t, n.mounter.Mount(t.Context(), mount.Request{Source: "in", FSType: "tmpfs", Target: inside}))
	require.NoError(t, os.WriteFile(inside+"/file", nil, 0o644))
	_, err := n.up(inPod(n.paths+"/dir", ""))
	require.ErrorIs(t, err, mount.ErrSubmounts)
	require.Equal(t, volume.Final, volume.KindOf(err))
	n.requireDown(t)

	with := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) { c.Submounts = mount.IncludeSubmounts })
	target, err := with.up(inPod(n.paths+"/dir", ""), volume.MounterArgs{ReadOnly: true})
	require.NoError(t, err)
	require.FileExists(t, target+"/inside/file")
	require.ErrorIs(t, os.WriteFile(target+"/inside/new", nil, 0o644), unix.EROFS)
	n.down(t) // by the one that does not include them
	require.FileExists(t, inside+"/file")

	require.NoError(t, n.mounter.Unmount(t.Context(), inside))
	for field, config := range map[string]hostpath.Config{
		"Submounts":   {Mounter: n.mounter, Submounts: mount.HideSubmounts},
		"Propagation": {Mounter: n.mounter, Propagation: mount.PropagationShared + 1},
	} {
		var input *mount.InputError
		require.ErrorAs(t, hostpath.New(config).Init(n.host), &input)
		require.Equal(t, field, input.Field)
	}
}

// TestRoots: a path may be a root itself; roots may be files, and reached by a link.
func TestRoots(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	n.things(t, false)
	require.NoError(t, os.Symlink("paths", n.dir+"/alias"))
	other := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) {
		c.Roots = []string{n.dir + "/alias/dir", n.dir + "/paths/file"}
	})
	for _, good := range []string{"/alias/dir", "/alias/dir/in", "/paths/file", "/paths//file"} {
		target, err := other.up(inPod(n.dir+good, ""))
		require.NoError(t, err, good)
		_, err = other.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
		require.NoError(t, err, good)
		n.down(t)
	}
	for _, bad := range []string{"/paths", "/paths/dir", "/alias", "/alias/file", "/paths/filex", "/root", "/root/pods/1", ""} {
		_, err := other.up(inPod(n.dir+bad, ""))
		require.Error(t, err, bad)
	}
	all := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) { c.Roots = []string{"/"} })
	for _, bad := range []string{"/", n.dir, n.dir + "/root", n.dir + "/root/pods", n.dir + "/root/plugins/x"} {
		_, err := all.up(inPod(bad, ""))
		require.Error(t, err, bad)
	}
	none := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) { c.Roots = nil })
	_, err := none.up(inPod(n.paths+"/dir", ""))
	require.Error(t, err)
	for _, bad := range []hostpath.Config{
		{}, {Mounter: n.mounter, Roots: []string{"relative"}}, {Mounter: n.mounter, Roots: []string{n.dir + "/none"}},
		{Mounter: n.mounter, RecycleRoots: []string{n.dir + "/none"}},
	} {
		require.Error(t, hostpath.New(bad).Init(n.host))
	}
	require.NoError(t, os.MkdirAll(n.host.Root()+"/pods", 0o755))
	require.Error(t, hostpath.New(hostpath.Config{Mounter: n.mounter, Roots: []string{n.host.Root() + "/pods"}}).Init(n.host))
}
