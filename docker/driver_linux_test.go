package docker

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){
		"up":         func(p mounttest.Process) { require.NoError(p, newCaller(p, p.Args[0]).up()) },
		"down":       func(p mounttest.Process) { require.NoError(p, newCaller(p, p.Args[0]).down()) },
		"serve":      serveDirectories,
		"containers": runContainers,
		// binds a directory in a mount namespace of its own, says so, and waits for the end of its input
		"container": func(p mounttest.Process) {
			require.NoError(p, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
			require.NoError(p, unix.Mount(p.Args[0], p.Args[1], "", unix.MS_BIND, ""))
			_, err := os.Stdout.WriteString("ready\n")
			require.NoError(p, err)
			_, _ = os.Stdin.Read(make([]byte, 1))
		},
	})
}

// localConfig configures a driver of directories in dir.
func localConfig(dir string, mounter mount.Interface) Config {
	return Config{
		Mounter: mounter, Share: LocalShare, Size: 8 << 20, // also on a small disk
		Plugin: local.NewProvisioning(local.ProvisioningConfig{
			Config: local.Config{Mounter: mounter, Roots: []string{dir + "/shares"}}, Provisioner: "local", ClaimRoots: []string{dir + "/claims"},
		}),
	}
}

// newLocalRig serves directories by real mounts. It must run in a namespace.
func newLocalRig(t *testing.T) *rig {
	t.Helper()
	mounter := mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, mounter.Close()) })
	return newRig(t, func(dir string) Config {
		require.NoError(t, os.Mkdir(dir+"/claims", 0o755))
		require.NoError(t, os.MkdirAll(dir+"/shares/a", 0o755))
		return localConfig(dir, mounter)
	})
}

// TestDirectories: containers write into the directory of a volume, and only read from a read-only one.
func TestDirectories(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	r := newLocalRig(t)
	require.NoError(t, r.create("data", nil))
	path, err := r.mount("data", "a")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path+"/file", []byte("data"), 0o600))
	used := r.status("data", "used")
	require.NotZero(t, used)
	require.NoError(t, r.unmount("data", "a"))
	require.Nil(t, r.status("data", "used"))
	path, err = r.mount("data", "b")
	require.NoError(t, err)
	require.FileExists(t, path+"/file")

	require.NoError(t, os.WriteFile(r.dir+"/shares/a/file", nil, 0o600))
	require.NoError(t, r.create("share", map[string]string{"share": r.dir + "/shares/a", "ro": "true", "o": "noexec"}))
	path, err = r.mount("share", "a")
	require.NoError(t, err)
	require.FileExists(t, path+"/file")
	require.ErrorIs(t, os.WriteFile(path+"/other", nil, 0o600), syscall.EROFS)
	require.NoError(t, r.unmount("share", "a"))
	require.NoError(t, r.remove("share"))
	require.FileExists(t, r.dir+"/shares/a/file")

	for want, options := range map[string]map[string]string{
		"/etc":        {"share": "/etc"},
		"unsupported": {"unsupported": "x"},
	} {
		require.ErrorContains(t, r.create("refused", options), want)
	}
	require.Equal(t, []string{"data"}, r.names())
}

// TestOwner: the root directory of a new volume gets its owner and mode once.
func TestOwner(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	r := newLocalRig(t)
	require.NoError(t, r.create("data", map[string]string{"uid": "1000", "gid": "2000", "mode": "1750"}))
	stat := func(path string) (st unix.Stat_t) {
		require.NoError(t, unix.Lstat(path, &st))
		return st
	}
	path, err := r.mount("data", "a")
	require.NoError(t, err)
	st := stat(path)
	require.Equal(t, []uint32{1000, 2000, unix.S_IFDIR | 0o1750}, []uint32{st.Uid, st.Gid, st.Mode})
	require.NoError(t, os.Chown(path, 1, 1))
	require.NoError(t, r.unmount("data", "a"))
	path, err = r.mount("data", "a")
	require.NoError(t, err)
	require.Equal(t, uint32(1), stat(path).Uid, "its containers own it from then on")

	require.NoError(t, r.create("group", map[string]string{"gid": "2000"}))
	path, err = r.mount("group", "a")
	require.NoError(t, err)
	require.Equal(t, []uint32{0, 2000}, []uint32{stat(path).Uid, stat(path).Gid})
}

// TestRemoveBesideProcess: a lost user counts as long as a process has the volume, or a directory of it, among its mounts.
func TestRemoveBesideProcess(t *testing.T) {
	if !kubeserver.Isolate(t) {
		return
	}
	for _, part := range []string{"", "/part"} {
		r := newLocalRig(t)
		require.NoError(t, r.create("data", nil))
		path, err := r.mount("data", "lost")
		require.NoError(t, err)
		require.NoError(t, os.Mkdir(path+"/part", 0o755))
		require.NoError(t, os.Mkdir(r.dir+"/in container", 0o755))
		container := mounttest.Program("container", path+part, r.dir+"/in container")
		container.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
		input, err := container.StdinPipe()
		require.NoError(t, err)
		output, err := container.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, container.Start())
		_, err = output.Read(make([]byte, 16))
		require.NoError(t, err)

		r.age("data", "lost", time.Hour)
		_, err = r.mount("data", "lost") // docker cp after a restart, while the container runs
		require.NoError(t, err)
		require.NoError(t, r.unmount("data", "lost"))
		require.True(t, r.isMounted("data"), part)
		r.age("data", "lost", time.Hour)
		require.ErrorContains(t, r.remove("data"), "in use: by process ", part)
		require.True(t, r.isMounted("data"))
		require.NoError(t, input.Close())
		require.NoError(t, container.Wait())
		require.NoError(t, r.remove("data"), part)
		require.Empty(t, r.records())
	}
}

// TestForgottenUserOfDevice: the mount of a device for all users is not a use of the volume.
func TestForgottenUserOfDevice(t *testing.T) {
	if !kubeserver.Isolate(t) {
		return
	}
	mounter := mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, mounter.Close()) })
	r := newRig(t, func(string) Config {
		return Config{Plugin: volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter}), Mounter: mounter}
	})
	require.NoError(t, r.create("data", nil))
	_, err := r.mount("data", "lost")
	require.NoError(t, err)
	r.restart()
	_, err = r.mount("data", "lost") // of a container that starts again
	require.NoError(t, err)
	r.age("data", "lost", time.Hour)
	require.NoError(t, r.remove("data"))
	require.False(t, r.isMounted("data"))
}

// TestFindMount: a mount of this namespace is found, beside the own one.
func TestFindMount(t *testing.T) {
	if !kubeserver.Isolate(t) {
		return
	}
	dir := t.TempDir()
	for _, sub := range []string{"/volume", "/at"} {
		require.NoError(t, os.Mkdir(dir+sub, 0o755))
	}
	require.NoError(t, unix.Mount(dir+"/volume", dir+"/volume", "tmpfs", 0, ""))
	defer func() { require.NoError(t, unix.Unmount(dir+"/volume", unix.MNT_DETACH)) }()
	var st unix.Stat_t
	require.NoError(t, unix.Stat(dir+"/volume", &st))
	want := mountIdentity{Device: fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)), Root: "/", Own: []string{dir + "/volume"}}
	process, err := findMountInProcesses(want)
	require.NoError(t, err)
	require.Zero(t, process)
	require.NoError(t, unix.Mount(dir+"/volume", dir+"/at", "", unix.MS_BIND, ""))
	defer func() { require.NoError(t, unix.Unmount(dir+"/at", unix.MNT_DETACH)) }()
	process, err = findMountInProcesses(want)
	require.NoError(t, err)
	require.NotZero(t, process)
}

// TestMountIdentity: a mount table is read as the kernel writes it.
func TestMountIdentity(t *testing.T) {
	const root, mounts = `/a\040b\134c\012`, "/plugins/volumekit.io/docker/d/mounts/"
	s := mountIdentity{Device: "8:1", Root: escape.Replace("/a b\\c\n"), Own: []string{mounts, "/mounts/device"}, Earlier: []string{"/shares/a"}}
	require.Equal(t, root, s.Root)
	line := func(device, root, at string) string {
		return "36 35 " + device + " " + root + " " + at + " rw shared:1 - ext4 /dev/a rw\n"
	}
	for _, mounted := range []string{root, root + "/part"} {
		require.True(t, s.isIn(line("8:2", "/", "/")+line("8:1", mounted, "/data")))
	}
	for _, table := range []string{
		"", "\n", "36 35 8:1", line("8:1", root+"d", "/data"), line("8:1", "/", "/data"), line("8:2", root, "/data"),
		line("8:1", root, "/root"+mounts+"data"), line("8:1", root, "/root"+mounts+"other"), line("8:1", root, "/root/mounts/device"),
		line("8:1", root, "/shares/a"),
	} {
		require.False(t, s.isIn(table), table)
	}
	require.True(t, s.isIn(line("8:1", root, "/container/shares/a")))
	s.Root = "/"
	require.True(t, s.isIn(line("8:1", "/", "/data")))
	require.True(t, s.isIn(line("8:1", "/part", "/data")))

	nfs := mountIdentity{Device: "0:50", Root: "/", Source: "server:/export/a"}
	for source, want := range map[string]bool{"server:/export/a": true, "server:/export/a/part": true, "server:/export/b": false, "server:/export/ab": false} {
		require.Equal(t, want, nfs.isIn("36 35 0:50 / /data rw - nfs4 "+source+" rw\n"), source)
	}
}

// TestMountedShare: the mount of a share on the machine is not a use, and neither is the volume of another name.
func TestMountedShare(t *testing.T) {
	if !kubeserver.Isolate(t) {
		return
	}
	r := newLocalRig(t)
	share := r.dir + "/shares/a"
	require.NoError(t, unix.Mount("share", share, "tmpfs", 0, ""))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(share, unix.MNT_DETACH)) })
	for _, name := range []string{"one", "two"} {
		require.NoError(t, r.create(name, map[string]string{"share": share}))
		_, err := r.mount(name, "lost")
		require.NoError(t, err)
	}
	r.age("one", "lost", time.Hour)
	require.NoError(t, r.remove("one"))
	require.NoError(t, r.unmount("two", "lost"))
	require.NoError(t, r.remove("two"))
}

// A caller makes the calls for one volume of a driver of directories, in a process of its own.
type caller struct{ *driver }

func newCaller(t require.TestingT, dir string) caller {
	host, err := volume.NewHost(context.Background(), dir+"/root", volume.WithNodeName("node-1"))
	require.NoError(t, err)
	c := localConfig(dir, mount.New(mount.Config{StagingDir: dir + "/stage"}))
	c.Name, c.Host = "driver", host
	d, err := newDriver(context.Background(), c)
	require.NoError(t, err)
	return caller{d}
}

func (c caller) up() error {
	ctx := context.Background()
	_, err := c.create(ctx, request{Name: "data", Opts: map[string]string{"mode": "0711"}})
	if err == nil {
		_, err = c.mount(ctx, request{Name: "data", ID: "a"})
	}
	return err
}

// down undoes up, however often that was interrupted.
func (c caller) down() error {
	ctx := context.Background()
	for {
		_, err := c.unmount(ctx, request{Name: "data", ID: "a"})
		if _, use, _, _ := c.store.get("data"); err == nil && len(use.Users) > 0 {
			continue
		}
		if err == nil || strings.Contains(err.Error(), errNoVolume.Error()) {
			_, err = c.remove(ctx, request{Name: "data"})
		}
		return err
	}
}

// TestKilled: after SIGKILL at any call that changes a file or a mount, the next process continues: the same
// calls succeed, and nothing is left in the end.
func TestKilled(t *testing.T) {
	for _, verb := range []string{"up", "down"} {
		t.Run(verb, func(t *testing.T) {
			if mounttest.Namespace(t) {
				testKilled(t, verb)
			}
		})
	}
}

func testKilled(t *testing.T, verb string) {
	dir := t.TempDir()
	for _, sub := range []string{"/root", "/claims", "/shares", "/stage"} {
		require.NoError(t, os.Mkdir(dir+sub, 0o755))
	}
	kills := mounttest.KillAtEachCall(t, func() *exec.Cmd {
		require.NoError(t, newCaller(t, dir).down())
		requireNothing(t, dir, "before")
		if verb == "down" {
			require.NoError(t, newCaller(t, dir).up())
		}
		return mounttest.Program(verb, dir)
	}, func(place string) {
		next := newCaller(t, dir)
		next.takeDownAllUnused(t.Context())
		if verb == "up" {
			require.NoError(t, next.up(), place)
			_, use, _, err := next.store.get("data")
			require.NoError(t, err, place)
			require.Len(t, use.Users, 1, place)
			info, err := os.Stat(next.path("data"))
			require.NoError(t, err, place)
			require.Equal(t, fs.FileMode(0o711), info.Mode().Perm(), place)
			require.NoError(t, os.WriteFile(next.path("data")+"/file", []byte("data"), 0o600), place)
		}
		require.NoError(t, next.down(), place)
		requireNothing(t, dir, place)
	})
	require.Positive(t, kills)
}

// requireNothing: no volume, no mount and no record is left, but for files that were being written, and the name of the
// directory.
func requireNothing(t *testing.T, dir, place string) {
	t.Helper()
	entries, err := os.ReadDir(dir + "/claims")
	require.NoError(t, err)
	for _, entry := range entries {
		require.Equal(t, ".volumekit", entry.Name(), place)
	}
	require.NoError(t, fs.WalkDir(os.DirFS(dir+"/root/plugins/volumekit.io/docker"), ".", func(name string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		require.True(t, entry.IsDir() || strings.HasSuffix(name, ".new") || entry.Name() == identityFile, "%s: left: %s", place, name)
		require.NotEqual(t, "data", entry.Name(), place)
		return nil
	}))
}
