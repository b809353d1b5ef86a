package hostpath_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

var keep = volume.MounterArgs{IsRemount: true} // as after a restart

// listen makes a socket, as a daemon does that has removed the socket of an earlier run.
func listen(t *testing.T, name string) {
	t.Helper()
	at, err := net.Listen("unix", name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = at.Close() })
	at.(*net.UnixListener).SetUnlinkOnClose(false)
}

// makeDir makes a directory with one file.
func makeDir(t *testing.T, name, file string) {
	t.Helper()
	require.NoError(t, os.Mkdir(name, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(name, file), nil, 0o600))
}

// A replacement makes what is at a path, and replaces it.
type replacement struct {
	kind          v1.HostPathType
	make, replace func(t *testing.T, path string)
}

var replacements = map[string]replacement{
	"socket": {v1.HostPathSocket, listen, func(t *testing.T, path string) {
		require.NoError(t, os.Remove(path))
		listen(t, path)
	}},
	"file": {v1.HostPathFile, func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	}, func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path+".new", []byte("new"), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}},
	"backed up file": {v1.HostPathUnset, func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, []byte("old"), 0o600))
	}, func(t *testing.T, path string) {
		require.NoError(t, os.Rename(path, path+"~"))
		require.NoError(t, os.WriteFile(path, []byte("new"), 0o600))
	}},
	"directory": {v1.HostPathDirectory, func(t *testing.T, path string) { makeDir(t, path, "old") }, func(t *testing.T, path string) {
		require.NoError(t, os.RemoveAll(path))
		makeDir(t, path, "new")
	}},
	"renamed directory": {v1.HostPathDirectoryOrCreate, func(t *testing.T, path string) { makeDir(t, path, "old") }, func(t *testing.T, path string) {
		require.NoError(t, os.Rename(path, path+".old"))
		makeDir(t, path, "new")
	}},
	"directory, moved and removed": {v1.HostPathDirectory, func(t *testing.T, path string) { makeDir(t, path, "old") }, func(t *testing.T, path string) {
		require.NoError(t, os.Rename(path, path+".old"))
		require.NoError(t, os.RemoveAll(path+".old"))
		makeDir(t, path, "new")
	}},
	"directory, now a file": {v1.HostPathUnset, func(t *testing.T, path string) { makeDir(t, path, "old") }, func(t *testing.T, path string) {
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}},
	"file, now a directory": {v1.HostPathUnset, func(t *testing.T, path string) {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}, func(t *testing.T, path string) {
		require.NoError(t, os.Remove(path))
		makeDir(t, path, "new")
	}},
	"unchanged": {v1.HostPathDirectory, func(t *testing.T, path string) { makeDir(t, path, "old") }, func(*testing.T, string) {}},
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(path, &st))
	return st.Ino
}

// TestReplaced: after a restart a volume is known by the path of its specification, and stays up,
// whatever is at the path by now. A SetUp for a new container mounts that.
func TestReplaced(t *testing.T) {
	for name, r := range replacements {
		t.Run(name, func(t *testing.T) {
			if mounttest.RootNamespace(t) {
				testReplaced(t, r)
			}
		})
	}
}

func testReplaced(t *testing.T, r replacement) {
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	spec := inPod(at, r.kind)
	r.make(t, at)
	before := inode(t, at)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	r.replace(t, at)
	requireIs := func(file uint64) {
		t.Helper()
		require.Equal(t, file, inode(t, target))
		require.Len(t, n.mounts(t), 1)
		found, err := n.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
		require.NoError(t, err)
		require.Equal(t, at, found.Spec.Volume.HostPath.Path)
	}
	n = nodeIn(t, n.mounter, n.dir)
	requireIs(before)
	for range 2 {
		_, err = n.setUp(spec, keep)
		require.NoError(t, err)
		requireIs(before)
	}
	require.NoError(t, os.Rename(at, n.paths+"/away"))
	_, err = n.setUp(spec, keep)
	require.NoError(t, err, "what the containers have is up")
	require.NoError(t, os.RemoveAll(at)) // of DirectoryOrCreate
	require.NoError(t, os.Rename(n.paths+"/away", at))
	for range 2 {
		_, err = n.setUp(spec)
		require.NoError(t, err)
		requireIs(inode(t, at))
	}
	n.tearDown(t)
	require.NoDirExists(t, n.host.Root()+"/pods/1/plugins")
	left, err := unix.Listxattr(filepath.Dir(target), nil)
	require.NoError(t, err)
	require.Zero(t, left, "an attribute is left")
}

// nodeOnTmpfs returns a node that forgets its files: the next one may have the inode of a removed one.
func nodeOnTmpfs(t *testing.T) *node {
	t.Helper()
	n := nodeIn(t, mount.New(mount.Config{}), testbed.Tmpfs(t, t.TempDir()))
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	return n
}

// TestReplacementDoesNotFit: a SetUp for a new container fails as that of a new pod does, before
// anything has changed: the earlier volume stays up.
func TestReplacementDoesNotFit(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	for name, replace := range map[string]func(t *testing.T, at string){
		"missing": func(*testing.T, string) {},
		"other type": func(t *testing.T, at string) {
			require.NoError(t, os.WriteFile(at, nil, 0o600))
		},
		"with a mount": func(t *testing.T, at string) {
			makeDir(t, at, "new")
			n := &node{}
			n.nodeMounts(t, at+"/sub")
		},
	} {
		n := nodeOnTmpfs(t)
		at := n.paths + "/x"
		spec := inPod(at, v1.HostPathDirectory)
		makeDir(t, at, "old")
		target, err := n.setUp(spec)
		require.NoError(t, err)
		require.NoError(t, os.RemoveAll(at))
		before := n.mounts(t)
		replace(t, at)
		for _, args := range []volume.MounterArgs{{}, {ReadOnly: true}, {ReadOnly: true, IsRemount: true}} {
			_, err = n.setUp(spec, args)
			require.Error(t, err, name)
			require.NotEqual(t, volume.Uncertain, volume.KindOf(err), name)
			require.Equal(t, before, n.mounts(t), name)
			_, err = n.setUp(spec, keep)
			require.NoError(t, err, name)
		}
		n.tearDown(t)
		require.NoDirExists(t, target)
		require.NoDirExists(t, n.host.Root()+"/plugins/kubernetes.io/host-path/renewals")
	}
}

// TestReplacedDevice: a replacement that the mounter refuses is no reason to unmount.
func TestReplacedDevice(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	require.NoError(t, os.WriteFile(at, []byte("old"), 0o600))
	spec := inPod(at, v1.HostPathUnset)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, os.Remove(at))
	require.NoError(t, unix.Mknod(at, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))))
	_, err = n.setUp(spec)
	require.Equal(t, volume.Final, volume.KindOf(err))
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "old", string(text))
	n.tearDown(t)
}

// TestReplacedReadOnly: other arguments are refused, also if the file was replaced.
func TestReplacedReadOnly(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	makeDir(t, at, "old")
	spec := inPod(at, v1.HostPathDirectory)
	readOnly := volume.MounterArgs{ReadOnly: true}
	target, err := n.setUp(spec, readOnly)
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(at))
	makeDir(t, at, "new")
	for _, args := range []volume.MounterArgs{{}, keep} {
		_, err = n.setUp(spec, args)
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	}
	_, err = n.setUp(spec, readOnly)
	require.NoError(t, err)
	require.FileExists(t, target+"/new")
	require.ErrorIs(t, os.WriteFile(target+"/written", nil, 0o600), unix.EROFS)
	n.tearDown(t)
}

// TestRemountedOnNode: a mount option of the node that changes later is no other argument: the volume
// stays up with its own flags, and a new container gets the node's.
func TestRemountedOnNode(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	tmpfsAt(t, n.paths)
	at := n.paths + "/x"
	makeDir(t, at, "file")
	spec := inPod(at, v1.HostPathDirectory)
	_, err := n.setUp(spec)
	require.NoError(t, err)
	before := n.mounts(t)
	require.NoError(t, unix.Mount("", n.paths, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOEXEC, ""))
	_, err = n.setUp(spec, keep)
	require.NoError(t, err)
	require.Equal(t, before, n.mounts(t))
	_, err = n.setUp(spec)
	require.NoError(t, err)
	require.NotZero(t, n.mounts(t)[0].Flags&mount.NoExec)
	n.tearDown(t)
}

// TestReplacedBusy: a process of the node uses the volume's mount, which is not renewed then, and
// nothing changes.
func TestReplacedBusy(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	makeDir(t, at, "old")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	user, err := os.Open(target + "/old")
	require.NoError(t, err)
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	_, err = n.setUp(spec)
	require.ErrorIs(t, err, mount.ErrBusy)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.FileExists(t, target+"/old")
	require.NoError(t, os.Rename(at, at+".new"))
	_, err = n.setUp(spec, keep)
	require.NoError(t, err, "also without a file at the path")
	require.NoError(t, os.Rename(at+".new", at))
	require.NoError(t, user.Close())
	_, err = n.setUp(spec)
	require.NoError(t, err)
	require.FileExists(t, target+"/new")
	n.tearDown(t)
}

// TestReplacedBusyWithSubmounts: of a volume with others below, some may be unmounted by then. Every SetUp
// continues, also for the earlier directory, and succeeds once the process has ended.
func TestReplacedBusyWithSubmounts(t *testing.T) {
	for _, used := range []string{"/old", "/sub/file"} {
		t.Run(used, func(t *testing.T) {
			if mounttest.RootNamespace(t) {
				testReplacedBusyWithSubmounts(t, used)
			}
		})
	}
}

func testReplacedBusyWithSubmounts(t *testing.T, used string) {
	n := nodeIn(t, mount.New(mount.Config{}), testbed.Tmpfs(t, t.TempDir()), func(c *hostpath.Config) {
		c.Submounts, c.Propagation = mount.IncludeSubmounts, mount.PropagationSlave
	})
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	mountShared(t, n.paths)
	at := n.paths + "/x"
	makeDir(t, at, "old")
	n.nodeMounts(t, at+"/sub")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	user, err := os.Open(target + used)
	require.NoError(t, err)
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	for _, args := range []volume.MounterArgs{{}, keep} {
		_, err = n.setUp(spec, args)
		require.ErrorIs(t, err, mount.ErrBusy)
		require.Equal(t, volume.Uncertain, volume.KindOf(err))
		require.FileExists(t, target+used)
	}
	_, err = n.setUp(spec, volume.MounterArgs{ReadOnly: true})
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	require.NoError(t, user.Close())
	require.NoError(t, os.RemoveAll(at))
	require.NoError(t, os.Rename(at+".old", at))
	_, err = n.setUp(spec, keep)
	require.NoError(t, err)
	require.FileExists(t, target+"/sub/file")
	n.nodeMounts(t, at+"/later")
	require.FileExists(t, target+"/later/file", "mounts propagate again")
	n.tearDown(t)
}

// TestOtherSpelling: options in another order are the same, and then those that count.
func TestOtherSpelling(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	makeDir(t, at, "old")
	_, err := n.setUp(persistent(at, v1.HostPathDirectory, "noexec", "nodev"))
	require.NoError(t, err)
	spec := persistent(at, v1.HostPathDirectory, "nodev", "noexec")
	target, err := n.setUp(spec, keep)
	require.NoError(t, err)
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	_, err = n.setUp(spec, keep)
	require.NoError(t, err)
	require.FileExists(t, target+"/old")
	_, err = n.setUp(spec)
	require.NoError(t, err)
	require.FileExists(t, target+"/new")
	n.tearDown(t)
}

// TestMountBeneathIsNotUnmounted: so is one beneath the volume.
func TestMountBeneathIsNotUnmounted(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	makeDir(t, at, "old")
	makeDir(t, n.paths+"/y", "theirs")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	tree, err := unix.OpenTree(unix.AT_FDCWD, n.paths+"/y", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	require.NoError(t, err)
	const beneath = 0x200 // MOVE_MOUNT_BENEATH, Linux 6.5
	err = unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH|beneath)
	require.NoError(t, unix.Close(tree))
	if err != nil {
		mounttest.SkipWithout(t, "statmount", err) // Linux 6.8
	}
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	_, err = n.setUp(spec)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	require.Len(t, n.mounts(t), 2)
	require.FileExists(t, target+"/old")
	n.tearDown(t)
}

// TestSwappedInRenewal: a mounter that takes paths alone mounts what is at the path by then. The next
// SetUp notes that.
func TestSwappedInRenewal(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	at := ""
	mounts := 0
	n := nodeIn(t, mount.New(mount.Config{}), testbed.Tmpfs(t, t.TempDir()), func(c *hostpath.Config) {
		c.Mounter = swapper{c.Mounter, func() {
			if mounts++; mounts == 3 { // after the trial
				require.NoError(t, os.Rename(at, at+".new"))
				makeDir(t, at, "third")
			}
		}, true}
	})
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	at = n.paths + "/x"
	makeDir(t, at, "old")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	for range 2 {
		_, err = n.setUp(spec)
		require.NoError(t, err)
		require.FileExists(t, target+"/third")
	}
	require.NoError(t, os.Rename(at, at+".third"))
	_, err = n.setUp(spec, keep)
	require.NoError(t, err)
	n.tearDown(t)
}

// TestForeignMountIsNotRenewed: a mount that is not the one of the record is never taken for it.
func TestForeignMountIsNotRenewed(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	makeDir(t, at, "old")
	makeDir(t, n.paths+"/y", "theirs")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, n.mounter.Unmount(t.Context(), target))
	require.NoError(t, unix.Mount(n.paths+"/y", target, "", unix.MS_BIND, ""))
	require.NoError(t, os.RemoveAll(at))
	makeDir(t, at, "new")
	for _, args := range []volume.MounterArgs{{}, keep} {
		_, err = n.setUp(spec, args)
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
		require.FileExists(t, target+"/theirs")
	}
	other := inPod(n.paths+"/y", v1.HostPathDirectory)
	_, err = n.setUp(other)
	require.NoError(t, err, "the volume of another path is up as it should")
	_, err = n.setUp(spec)
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	n.tearDown(t)
}

// TestMountInVolumeIsNotUnmounted: a mount that somebody has made in the volume keeps it as it is.
func TestMountInVolumeIsNotUnmounted(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	makeDir(t, at, "old")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	n.nodeMounts(t, target+"/theirs")
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	_, err = n.setUp(spec)
	require.ErrorIs(t, err, mount.ErrBusy)
	require.ErrorContains(t, err, target+"/theirs")
	_, err = n.setUp(spec, keep)
	require.NoError(t, err)
	require.FileExists(t, target+"/theirs/file")
	n.tearDown(t)
}

// TestRecordOfEarlierMount: the record of a mount that has gone, as after a reboot, is of no other
// mount, though the kernel uses device numbers and inodes again.
func TestRecordOfEarlierMount(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	if _, err := n.mounter.MountID(t.Context(), n.dir); errors.Is(err, errors.ErrUnsupported) {
		mounttest.SkipWithout(t, "statmount", err)
	}
	at := n.paths + "/x"
	makeDir(t, at, "old")
	tmpfsAt(t, at)
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, unix.Unmount(target, 0))
	require.NoError(t, unix.Unmount(at, 0))
	require.NoError(t, unix.Mount("theirs", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""))
	require.NoError(t, os.WriteFile(target+"/precious", nil, 0o600))
	for _, args := range []volume.MounterArgs{{}, keep} {
		_, err = n.setUp(spec, args)
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
		require.FileExists(t, target+"/precious")
	}
	require.NoError(t, n.unmounter(t).TearDown(t.Context()))
}

// TestRecordOfEarlierBoot: a record is for one start of the system.
func TestRecordOfEarlierBoot(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	makeDir(t, at, "old")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	notes := podvolume.NewNotes(podvolume.NewMounts(n.host, n.mounter), hostpath.PluginName)
	record, err := notes.Read(t.Context(), target)
	require.NoError(t, err)
	var of map[string]any
	require.NoError(t, json.Unmarshal(record, &of))
	of["boot"] = "00000000-0000-0000-0000-000000000000"
	record, err = json.Marshal(of)
	require.NoError(t, err)
	require.NoError(t, notes.Write(t.Context(), target, record))
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	for _, args := range []volume.MounterArgs{{}, keep} {
		_, err = n.setUp(spec, args)
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	}
	n.tearDown(t)
}

// TestKeptVolumeIsNotLookedAt: a SetUp that keeps the volume makes nothing on the node.
func TestKeptVolumeIsNotLookedAt(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	spec := inPod(at, v1.HostPathDirectoryOrCreate)
	_, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, os.Remove(at))
	_, err = n.setUp(spec, keep)
	require.NoError(t, err)
	require.NoDirExists(t, at)
	n.tearDown(t)
}

// TestRenewalFails: a mount that fails before the unmount changes nothing. One that fails after it
// leaves the volume uncertain, and the next call brings it up.
func TestRenewalFails(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	m := &disturbingMounter{before: func(mount.Request) error { return nil }}
	n := nodeIn(t, mount.New(mount.Config{}), testbed.Tmpfs(t, t.TempDir()), func(c *hostpath.Config) { m.Interface, c.Mounter = c.Mounter, m })
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	at := n.paths + "/x"
	makeDir(t, at, "old")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	refused := errors.New("refused")
	for failing, kind := range []volume.ErrorKind{volume.Transient, volume.Uncertain} {
		calls := 0
		m.before = func(mount.Request) error {
			if calls++; calls > failing {
				return refused
			}
			return nil
		}
		_, err = n.setUp(spec)
		require.ErrorIs(t, err, refused)
		require.Equal(t, kind, volume.KindOf(err))
		m.before = func(mount.Request) error { return nil }
		if kind == volume.Transient {
			require.FileExists(t, target+"/old")
		}
	}
	_, err = n.setUp(spec, keep)
	require.NoError(t, err)
	require.FileExists(t, target+"/new")
	n.tearDown(t)
}

// A dyingMounter ends the process after a number of mounts, as far as the plugin can see.
type dyingMounter struct {
	mount.Interface
	left int
}

var errDied = fmt.Errorf("died: %w", mount.ErrUncertain)

func (d *dyingMounter) Mount(ctx context.Context, req mount.Request) error {
	if d.left == 0 {
		return errDied
	}
	err := d.Interface.Mount(ctx, req)
	if d.left--; d.left == 0 {
		return errors.Join(err, errDied)
	}
	return err
}

// TestDiesWithLinks: a process that dies between a mount and its record leaves a volume that is known by
// its own path, although the links lead elsewhere by then, and that the next SetUp brings in order.
func TestDiesWithLinks(t *testing.T) {
	for name, mounts := range map[string]int{"first": 1, "trial": 2, "renewal": 3} {
		t.Run(name, func(t *testing.T) {
			if mounttest.RootNamespace(t) {
				testDiesWithLinks(t, mounts)
			}
		})
	}
}

func testDiesWithLinks(t *testing.T, mounts int) {
	m := &dyingMounter{left: mounts}
	dies := newLinkNode(t, func(c *hostpath.Config) { m.Interface, c.Mounter = c.Mounter, m })
	link := dies.paths + "/etc/localtime"
	spec := inPod(link, v1.HostPathFileOrCreate)
	dies.link(t, "etc/localtime", "../zone/UTC")
	target, err := dies.setUp(spec)
	if mounts > 1 {
		require.NoError(t, err)
	}
	require.NoError(t, os.Remove(link))
	dies.link(t, "etc/localtime", "../zone/GMT")
	if mounts > 1 {
		_, err = dies.setUp(spec)
	}
	require.ErrorIs(t, err, errDied)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	next := nodeIn(t, dies.mounter, dies.dir, func(c *hostpath.Config) {
		c.Roots, c.Links = []string{dies.paths + "/zone", dies.paths + "/run"}, []string{dies.paths + "/etc", dies.paths + "/var"}
	})
	require.Len(t, next.mounts(t), 1, "a trial has gone")
	require.NoError(t, os.Remove(dies.paths+"/zone/UTC"))
	found, err := next.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
	require.NoError(t, err)
	require.Equal(t, link, found.Spec.Volume.HostPath.Path)
	for _, args := range []volume.MounterArgs{keep, {}, keep} {
		_, err = next.setUp(spec, args)
		require.NoError(t, err)
	}
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "zone/GMT", string(text))
	require.NoFileExists(t, dies.paths+"/zone/UTC")
	require.Len(t, next.mounts(t), 1)
	next.tearDown(t)
}

// TestDiesInRenewal: what a renewal has mounted before its process died is the volume's, also if the
// file is replaced once more.
func TestDiesInRenewal(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	m := &dyingMounter{left: 3}
	n := nodeIn(t, mount.New(mount.Config{}), testbed.Tmpfs(t, t.TempDir()), func(c *hostpath.Config) { m.Interface, c.Mounter = c.Mounter, m })
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	at := n.paths + "/x"
	spec := inPod(at, v1.HostPathDirectory)
	replace := func(file string) {
		require.NoError(t, os.RemoveAll(at))
		makeDir(t, at, file)
	}
	replace("old")
	target, err := n.setUp(spec)
	require.NoError(t, err)
	replace("new")
	_, err = n.setUp(spec)
	require.ErrorIs(t, err, errDied)
	require.FileExists(t, target+"/new")
	require.NoError(t, os.Rename(at, at+".away"))
	replace("newest")
	n = nodeIn(t, n.mounter, n.dir)
	found, err := n.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
	require.NoError(t, err)
	require.Equal(t, at, found.Spec.Volume.HostPath.Path)
	_, err = n.setUp(spec, keep)
	require.NoError(t, err)
	require.FileExists(t, target+"/new")
	_, err = n.setUp(spec)
	require.NoError(t, err)
	require.FileExists(t, target+"/newest")
	n.tearDown(t)
}

// TestFailedMountWithLinks: the record that comes before the mount goes with it.
func TestFailedMountWithLinks(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	refused := errors.New("refused")
	m := &disturbingMounter{before: func(mount.Request) error { return refused }}
	n := newLinkNode(t, func(c *hostpath.Config) { m.Interface, c.Mounter = c.Mounter, m })
	n.link(t, "etc/localtime", "../zone/UTC")
	_, err := n.setUp(inPod(n.paths+"/etc/localtime", v1.HostPathFile))
	require.ErrorIs(t, err, refused)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.NoDirExists(t, n.host.Root()+"/pods/1/plugins")
	n.requireDown(t)
}

// TestRecordOfEarlierLink: a record of a mount that has gone says nothing about another one.
func TestRecordOfEarlierLink(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newLinkNode(t)
	n.link(t, "etc/localtime", "../zone/UTC")
	spec := inPod(n.paths+"/etc/localtime", v1.HostPathFile)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, n.mounter.Unmount(t.Context(), target))
	require.NoError(t, n.mounter.Mount(t.Context(), mount.Request{Source: n.paths + "/zone/GMT", Target: target, Options: []string{"nodev"}}))
	require.NoError(t, os.Remove(n.paths+"/etc/localtime"))
	n.link(t, "etc/localtime", "../zone/GMT")
	for range 2 {
		_, err = n.setUp(spec)
		require.NoError(t, err)
	}
	n.tearDown(t)
}

// An overmounter mounts something on each new mount.
type overmounter struct{ mount.Interface }

func (o overmounter) Mount(ctx context.Context, req mount.Request) error {
	if err := o.Interface.Mount(ctx, req); err != nil {
		return err
	}
	return unix.Mount("theirs", req.Target, "tmpfs", 0, "")
}

// TestMountedOverAtOnce: another mount that comes before the record is not recorded as the volume.
func TestMountedOverAtOnce(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeIn(t, mount.New(mount.Config{}), testbed.Tmpfs(t, t.TempDir()), func(c *hostpath.Config) { c.Mounter = overmounter{c.Mounter} })
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	at := n.paths + "/x"
	makeDir(t, at, "old")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(target+"/precious", nil, 0o600))
	for _, args := range []volume.MounterArgs{{}, keep} {
		_, err = n.setUp(spec, args)
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
		require.FileExists(t, target+"/precious")
	}
	n.tearDown(t)
}

// TestUnfinishedRenewalAndForeignMount: the record of a renewal that died is no reason to unmount what
// somebody else has mounted.
func TestUnfinishedRenewalAndForeignMount(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	m := &disturbingMounter{before: func(mount.Request) error { return nil }}
	n := nodeIn(t, mount.New(mount.Config{}), testbed.Tmpfs(t, t.TempDir()), func(c *hostpath.Config) { m.Interface, c.Mounter = c.Mounter, m })
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	at := n.paths + "/x"
	makeDir(t, at, "old")
	makeDir(t, n.paths+"/y", "theirs")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	calls, refused := 0, errors.New("refused")
	m.before = func(mount.Request) error {
		if calls++; calls > 1 {
			return refused
		}
		return nil
	}
	_, err = n.setUp(spec)
	require.ErrorIs(t, err, refused)
	m.before = func(mount.Request) error { return nil }
	require.NoError(t, os.MkdirAll(target, 0o755))
	require.NoError(t, unix.Mount(n.paths+"/y", target, "", unix.MS_BIND, ""))
	for _, args := range []volume.MounterArgs{{}, keep} {
		_, err = n.setUp(spec, args)
		require.ErrorIs(t, err, volume.ErrAlreadyMounted)
		require.FileExists(t, target+"/theirs")
	}
	n.tearDown(t)
}

// TestRenewalAfterOtherConfiguration: the mounts below a volume are its own if they were at set-up.
func TestRenewalAfterOtherConfiguration(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeIn(t, mount.New(mount.Config{}), testbed.Tmpfs(t, t.TempDir()), func(c *hostpath.Config) { c.Submounts = mount.IncludeSubmounts })
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	at := n.paths + "/x"
	makeDir(t, at, "old")
	n.nodeMounts(t, at+"/sub")
	spec := inPod(at, v1.HostPathDirectory)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	n = nodeIn(t, n.mounter, n.dir)
	_, err = n.setUp(spec)
	require.NoError(t, err)
	require.FileExists(t, target+"/new")
	n.tearDown(t)
}

// TestRecordWithoutFile: the record of an earlier version, of a path with symbolic links, has no
// identity of a file. It still tells which links led to the volume.
func TestRecordWithoutFile(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newLinkNode(t)
	n.link(t, "etc/localtime", "../zone/UTC")
	path := n.paths + "/etc/localtime"
	spec := inPod(path, v1.HostPathFile)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	notes := podvolume.NewNotes(podvolume.NewMounts(n.host, n.mounter), hostpath.PluginName)
	record := fmt.Sprintf(`{"path":%q,"source":%q}`, path, n.paths+"/zone/UTC")
	require.NoError(t, notes.Write(t.Context(), target, []byte(record)))
	require.NoError(t, os.Remove(path))
	n.link(t, "etc/localtime", "../zone/GMT")
	_, err = n.setUp(spec)
	require.NoError(t, err)
	found, err := n.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
	require.NoError(t, err)
	require.Equal(t, path, found.Spec.Volume.HostPath.Path)
	_, err = n.setUp(spec)
	require.NoError(t, err, "the record is complete")
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "zone/GMT", string(text))
	n.tearDown(t)
}

// TestVolumeWithoutRecord: a volume that is up without a record, as one of an earlier version, gets
// one at the next SetUp.
func TestVolumeWithoutRecord(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := nodeOnTmpfs(t)
	at := n.paths + "/x"
	makeDir(t, at, "old")
	spec := inPod(at, v1.HostPathDirectory)
	target := n.unmounter(t).GetPath()
	require.NoError(t, os.MkdirAll(target, 0o755))
	require.NoError(t, n.mounter.Mount(context.Background(), mount.Request{Source: at, Target: target}))
	_, err := n.setUp(spec, keep)
	require.NoError(t, err)
	require.NoError(t, os.Rename(at, at+".old"))
	makeDir(t, at, "new")
	_, err = n.setUp(spec, keep)
	require.NoError(t, err)
	require.FileExists(t, target+"/old")
	n.tearDown(t)
}
