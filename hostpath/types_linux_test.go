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
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A deviceChoice says whether a test has devices, which require root of the machine.
type deviceChoice int

const (
	withoutDevices deviceChoice = iota
	withDevices
)

// things creates a file of each kind on the node, and returns their names.
func (n *node) things(t *testing.T, devices deviceChoice) []string {
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
	if devices == withDevices {
		require.NoError(t, errors.Join(
			unix.Mknod(at+"char", unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))), // zero
			unix.Mknod(at+"block", unix.S_IFBLK|0o600, int(unix.Mkdev(7, 9999))),
		))
		names = append(names, "char", "block")
	}
	return names
}

// acceptedThings lists the kinds of files that a type accepts; "none" if it creates one.
var acceptedThings = map[v1.HostPathType][]string{
	v1.HostPathUnset:             {"dir", "file", "socket", "fifo", "char", "block"},
	v1.HostPathDirectory:         {"dir"},
	v1.HostPathDirectoryOrCreate: {"dir", "none"},
	v1.HostPathFile:              {"file"},
	v1.HostPathFileOrCreate:      {"file", "none"},
	v1.HostPathSocket:            {"socket"},
	v1.HostPathCharDev:           {"char"},
	v1.HostPathBlockDev:          {"block"},
}

// TestTypes checks that each type accepts its own kind and refuses all others, and that the
// files on the node stay unchanged and no others appear.
func TestTypes(t *testing.T) {
	if mounttest.Namespace(t) {
		testTypes(t, withoutDevices)
	}
}

// TestTypesWithDevices is TestTypes with devices, which require root of the machine.
func TestTypesWithDevices(t *testing.T) {
	if mounttest.RootNamespace(t) {
		testTypes(t, withDevices)
	}
}

func testTypes(t *testing.T, devices deviceChoice) {
	for kind, good := range acceptedThings {
		n := newNode(t, mount.Config{Allow: mount.Allow{Dev: true}})
		for _, thing := range n.things(t, devices) {
			name := string(kind) + " " + thing
			target, err := n.setUp(inPod(n.paths+"/"+thing, kind))
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
			_, err = n.setUp(inPod(n.paths+"/"+thing, kind))
			require.NoError(t, err, "%s: it is up already", name)
			require.Len(t, n.mounts(t), 1)
			n.requireFound(t, target, n.paths+"/"+thing)
			n.tearDown(t)
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

// requireFound checks that ConstructVolumeSpec returns a spec after a restart that is up
// already.
func (n *node) requireFound(t *testing.T, target, written string) {
	t.Helper()
	found, err := n.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
	require.NoError(t, err)
	require.NotNil(t, found.Spec.Volume, "%+v", found.Spec.PersistentVolume)
	require.Equal(t, written, found.Spec.Volume.HostPath.Path)
	_, err = n.setUp(found.Spec)
	require.NoError(t, err, "up already: %v", found.Spec.Volume.HostPath)
}

// TestCreated checks that created files have the modes of their types, and are strictly
// below the root and never behind a link.
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
		_, err := n.setUp(inPod(n.paths+name, test.kind))
		require.NoError(t, err)
		info, err := os.Stat(n.paths + name)
		require.NoError(t, err)
		require.Equal(t, test.mode, info.Mode())
		n.tearDown(t)
	}
	require.DirExists(t, n.paths+"/a/b/c", "what was created stays")
	require.FileExists(t, n.paths+"/f")

	outside := n.dir + "/outside"
	require.NoError(t, os.Mkdir(outside, 0o755))
	require.NoError(t, os.Symlink(outside, n.paths+"/link"))
	require.NoError(t, os.Symlink(outside+"/new", n.paths+"/dangling"))
	for _, name := range []string{"/link/x", "/link", "/dangling", "/dangling/x"} {
		for _, kind := range []v1.HostPathType{v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate, ""} {
			_, err := n.setUp(inPod(n.paths+name, kind))
			require.Error(t, err, name)
			n.requireDown(t)
		}
	}
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, entries)
	_, err = n.setUp(inPod(n.paths+"/none/f", v1.HostPathFileOrCreate))
	require.ErrorIs(t, err, fs.ErrNotExist, "the parent of a file is not created")
}

// TestFailedSetUpIsReverted checks that a failed SetUp removes the pod's target. The directory or file
// that it created at the volume's path stays, and the next SetUp accepts it.
func TestFailedSetUpIsReverted(t *testing.T) {
	dir := t.TempDir()
	fake := mounttest.NewFake(mount.Config{})
	paths, err := os.MkdirTemp(dir, "paths")
	require.NoError(t, err)
	require.NoError(t, os.Mkdir(dir+"/root", 0o755))
	host, err := volume.NewHost(t.Context(), dir+"/root")
	require.NoError(t, err)
	plugin := hostpath.New(hostpath.Config{Mounter: fake, Roots: []string{paths}})
	require.NoError(t, plugin.Init(t.Context(), host))
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

// TestDevices checks that a device is usable only if the type requests it and the mounter
// allows it.
func TestDevices(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newNode(t, mount.Config{Allow: mount.Allow{Dev: true}})
	n.things(t, withDevices)
	read := func(name string) error {
		f, err := os.Open(name)
		if err == nil {
			_, err = f.Read(make([]byte, 8))
			_ = f.Close()
		}
		return err
	}
	target, err := n.setUp(inPod(n.paths+"/char", v1.HostPathCharDev))
	require.NoError(t, err)
	require.NoError(t, read(target))
	n.tearDown(t)
	target, err = n.setUp(inPod(n.paths+"/char", ""))
	require.NoError(t, err)
	require.NoError(t, read(target), "without a type")
	_, err = n.setUp(inPod(n.paths+"/char", ""))
	require.NoError(t, err, "again")
	n.tearDown(t)
	target, err = n.setUp(persistent(n.paths+"/char", "", "nodev"))
	require.NoError(t, err)
	require.ErrorIs(t, read(target), fs.ErrPermission, "the volume has the option nodev")
	n.tearDown(t)

	strict := nodeIn(t, mount.New(mount.Config{}), n.dir)
	for at, refusal := range map[string]struct {
		spec  *volume.Spec
		value string
	}{
		"spec.volume.hostPath.type":                {inPod(n.paths+"/char", v1.HostPathCharDev), "CharDevice"},
		"spec.persistentVolume.spec.hostPath.type": {persistent(n.paths+"/char", v1.HostPathCharDev, "noexec"), "CharDevice"},
		"spec.volume.hostPath.path":                {inPod(n.paths+"/char", ""), n.paths + "/char"},
		"spec.persistentVolume.spec.hostPath.path": {persistent(n.paths+"/char", ""), n.paths + "/char"},
	} {
		_, err = strict.setUp(refusal.spec)
		var refused *field.Error
		require.ErrorAs(t, err, &refused)
		require.Equal(t, at, refused.Field)
		require.Equal(t, refusal.value, refused.BadValue)
		require.Contains(t, refused.Detail, "mount.Config.Allow.Dev ")
		require.Equal(t, volume.Final, volume.KindOf(err))
		n.requireDown(t)
	}
}

// TestFiles checks volumes that are files: read-only ones refuse writes, foreign data at the
// target of a volume stay, and a path may become another kind of file.
func TestFiles(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	n.things(t, withoutDevices)
	file := inPod(n.paths+"/file", v1.HostPathFile)
	target, err := n.setUp(file, volume.MounterArgs{ReadOnly: true})
	require.NoError(t, err)
	require.ErrorIs(t, os.WriteFile(target, []byte("x"), 0o600), unix.EROFS)
	_, err = n.setUp(file)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	_, err = n.setUp(inPod(n.paths+"/dir", ""))
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	n.tearDown(t)
	target, err = n.setUp(inPod(n.paths+"/dir", ""))
	require.NoError(t, err)
	_, err = n.setUp(file)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	n.tearDown(t)

	// An empty target of the other kind, left by an interrupted call, is replaced.
	require.NoError(t, os.Mkdir(target, 0o750))
	_, err = n.setUp(file)
	require.NoError(t, err)
	n.tearDown(t)
	require.NoError(t, os.WriteFile(target, nil, 0o640))
	_, err = n.setUp(inPod(n.paths+"/dir", ""))
	require.NoError(t, err)
	n.tearDown(t)

	// A target with data is refused.
	require.NoError(t, os.WriteFile(target, []byte("precious"), 0o640))
	_, err = n.setUp(inPod(n.paths+"/dir", ""))
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
	n.things(t, withoutDevices)
	inside := n.paths + "/dir/inside"
	require.NoError(t, os.Mkdir(inside, 0o755))
	require.NoError(t, n.mounter.Mount(t.Context(), mount.Request{Source: "in", FSType: "tmpfs", Target: inside}))
	require.NoError(t, os.WriteFile(inside+"/file", nil, 0o644))
	_, err := n.setUp(inPod(n.paths+"/dir", ""))
	require.ErrorIs(t, err, mount.ErrSubmounts)
	require.Equal(t, volume.Final, volume.KindOf(err))
	n.requireDown(t)

	with := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) { c.Submounts = mount.IncludeSubmounts })
	target, err := with.setUp(inPod(n.paths+"/dir", ""), volume.MounterArgs{ReadOnly: true})
	require.NoError(t, err)
	require.FileExists(t, target+"/inside/file")
	require.ErrorIs(t, os.WriteFile(target+"/inside/new", nil, 0o644), unix.EROFS)
	n.tearDown(t) // by the plugin that does not include submounts
	require.FileExists(t, inside+"/file")

	require.NoError(t, n.mounter.Unmount(t.Context(), inside))
	for field, config := range map[string]hostpath.Config{
		"Submounts":   {Mounter: n.mounter, Submounts: mount.HideSubmounts},
		"Propagation": {Mounter: n.mounter, Propagation: mount.PropagationShared + 1},
	} {
		var input *mount.InputError
		require.ErrorAs(t, hostpath.New(config).Init(t.Context(), n.host), &input)
		require.Equal(t, field, input.Field)
	}
}

// TestPathMayBeARoot: a path may be a root itself; roots may be files, and reached by a link.
func TestPathMayBeARoot(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	n.things(t, withoutDevices)
	require.NoError(t, os.Symlink("paths", n.dir+"/alias"))
	other := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) {
		c.Roots = []string{n.dir + "/alias/dir", n.dir + "/paths/file"}
	})
	for _, good := range []string{"/alias/dir", "/alias/dir/in", "/paths/file", "/paths//file"} {
		target, err := other.setUp(inPod(n.dir+good, ""))
		require.NoError(t, err, good)
		_, err = other.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
		require.NoError(t, err, good)
		n.tearDown(t)
	}
	for _, bad := range []string{"/paths", "/paths/dir", "/alias", "/alias/file", "/paths/filex", "/root", "/root/pods/1", ""} {
		_, err := other.setUp(inPod(n.dir+bad, ""))
		require.Error(t, err, bad)
	}
	all := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) { c.Roots = []string{"/"} })
	for _, bad := range []string{"/", n.dir, n.dir + "/root", n.dir + "/root/pods", n.dir + "/root/plugins/x"} {
		_, err := all.setUp(inPod(bad, ""))
		require.Error(t, err, bad)
	}
	none := nodeIn(t, n.mounter, n.dir, func(c *hostpath.Config) { c.Roots = nil })
	_, err := none.setUp(inPod(n.paths+"/dir", ""))
	require.Error(t, err)
	for _, bad := range []hostpath.Config{
		{}, {Mounter: n.mounter, Roots: []string{"relative"}}, {Mounter: n.mounter, Roots: []string{n.dir + "/none"}},
		{Mounter: n.mounter, RecycleRoots: []string{n.dir + "/none"}},
	} {
		require.Error(t, hostpath.New(bad).Init(t.Context(), n.host))
	}
	require.NoError(t, os.MkdirAll(n.host.Root()+"/pods", 0o755))
	require.Error(t, hostpath.New(hostpath.Config{Mounter: n.mounter, Roots: []string{n.host.Root() + "/pods"}}).Init(t.Context(), n.host))
}
