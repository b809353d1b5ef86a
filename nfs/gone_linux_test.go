package nfs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
)

// deaths are ways for a server to go, and to come back.
var deaths = map[string]struct{ die, live func(n *node) error }{
	"silent":  {func(n *node) error { return n.server.LinkDown() }, func(n *node) error { return n.server.LinkUp() }},
	"refuses": {func(n *node) error { return n.server.Stop() }, func(n *node) error { return n.server.Start() }},
}

// uses are what programs do with a volume when its server dies: shell programs, with
// the volume as their first argument, that have done what a further file shows.
var uses = map[string]struct{ program, shows string }{
	"open":    {`exec 3>"$1/open"; echo dirty >&3; : >"$1/opened"; exec sleep 1000`, "opened"},
	"inside":  {`cd "$1"; : >inside; exec sleep 1000`, "inside"},
	"writing": {`cd "$1"; while :; do dd if=/dev/zero of=big bs=64k count=64 2>&-; : >written; done`, "written"},
}

// use runs a program on a volume until the test ends.
func (n *node) use(name, volume string) {
	n.Helper()
	c := exec.Command("sh", "-c", uses[name].program, "sh", volume)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(n, c.Start())
	n.Cleanup(func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL); _ = c.Wait() })
	require.Eventually(n, func() bool {
		_, err := os.Stat(volume + "/" + uses[name].shows)
		return err == nil
	}, time.Minute, time.Millisecond)
}

// brief is a volume whose client tries again after five seconds what got lost when its
// server went: by itself it would wait for minutes.
func (n *node) brief(path string, options ...string) *volume.Spec {
	return n.pv(path, append(options, "timeo=50")...)
}

// TestNFSGone: when the server is gone a volume is taken down all the same, by a
// process that can exit, whatever programs do with it.
func TestNFSGone(t *testing.T) {
	for death, how := range deaths {
		for _, use := range []string{"", "open", "inside", "writing"} {
			t.Run(death+"/"+use, func(t *testing.T) {
				if testing.Short() && (use == "inside" || use == "open" && death == "refuses") {
					t.Skip("much like the others")
				}
				n := newNode(t, nfs.Config{})
				path := n.exported("a")
				at := n.up(n.brief(path, "ro", "noexec"), "1").Mountpoint
				if use != "" {
					n.down(n.brief(path), "1")
					at = n.up(n.brief(path), "1").Mountpoint
					n.use(use, at)
				}
				require.NoError(t, how.die(n))
				c := n.command("down in time", path, false)
				require.NoError(t, c.Start())
				timer := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
				require.NoError(t, c.Wait())
				timer.Stop()
				require.Empty(t, n.mounted())
				n.requireGone(at)
				require.NoError(t, how.live(n))
			})
		}
	}
}

// TestNFSBack: calls about a volume whose server is gone end with their contexts and
// change nothing, others go on; when the server is back the volume is as it was.
func TestNFSBack(t *testing.T) {
	for death, how := range deaths {
		t.Run(death, func(t *testing.T) {
			n := newNode(t, nfs.Config{})
			path := n.exported("a")
			up, other := n.mounter(n.brief(path), "1"), n.mounter(n.brief(n.exported("b")), "1")
			before := n.up(n.brief(path), "1")
			file, err := os.Create(before.Mountpoint + "/file")
			require.NoError(t, err)
			require.NoError(t, how.die(n))
			for name, call := range map[string]func(ctx context.Context) error{
				"SetUp, up":   func(ctx context.Context) error { return up.SetUp(ctx, volume.MounterArgs{}) },
				"SetUp, new":  func(ctx context.Context) error { return other.SetUp(ctx, volume.MounterArgs{}) },
				"GetMetrics":  func(ctx context.Context) error { _, err := up.GetMetrics(ctx); return err },
				"TearDown":    n.unmounter(n.brief(path), "1").TearDown,
				"SetUp again": func(ctx context.Context) error { return up.SetUp(ctx, volume.MounterArgs{}) },
			} {
				err := call(n.within(300 * time.Millisecond))
				require.Error(t, err, name)
				require.Equal(t, volume.Transient, volume.KindOf(err), "%s: %v", name, err)
			}
			found, err := n.plugin.ConstructVolumeSpec(n.patiently(), "a", before.Mountpoint)
			require.NoError(t, err)
			require.Equal(t, path, nfsOf(found).Path)
			n.goOn()
			require.Equal(t, before, n.at(before.Mountpoint))
			require.Len(t, n.mounted(), 1)

			require.NoError(t, how.live(n))
			require.NoError(t, up.SetUp(n.patiently(), volume.MounterArgs{}))
			require.Equal(t, before, n.at(before.Mountpoint))
			_, err = file.WriteString("after all")
			require.NoError(t, err)
			require.NoError(t, file.Sync())
			written, err := os.ReadFile(path + "/file")
			require.NoError(t, err)
			require.Equal(t, "after all", string(written))
			_, err = up.GetMetrics(n.patiently())
			require.NoError(t, err)
			require.NoError(t, file.Close())
			n.down(n.brief(path), "1")
		})
	}
}

// goOn mounts and unmounts what has nothing to do with the server.
func (n *node) goOn() {
	n.Helper()
	for i := range 10 {
		target := n.TempDir()
		require.NoError(n, n.mounts.Mount(n.patiently(), mount.Request{
			Source: "x", Target: target, FSType: "tmpfs", Options: []string{fmt.Sprint("size=", i+1, "M")},
		}))
		require.NoError(n, n.mounts.Unmount(n.patiently(), target))
	}
}

// TestNFSGonePods: all volumes of a server that is gone come down, also the half of
// them that programs write to.
func TestNFSGonePods(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() && c.OneMountPerExport {
				t.Skip("much like the others")
			}
			n := newNode(t, c)
			n.grace = 300 * time.Millisecond
			n.on(filepath.Dir(n.host.Root()), c)
			path := n.exported("a")
			var unmounters []volume.Unmounter
			for i := range 16 {
				uid := fmt.Sprint(i)
				at := n.up(n.brief(path), uid)
				if i%2 == 0 {
					n.use("writing", at.Mountpoint)
				}
				unmounters = append(unmounters, n.unmounter(n.brief(path), uid))
			}
			require.NoError(t, n.server.LinkDown())
			var pods sync.WaitGroup
			for _, unmounter := range unmounters {
				pods.Go(func() { assert.NoError(t, inTime(unmounter.TearDown)) })
			}
			pods.Wait()
			require.Empty(t, n.mounted())
			for _, unmounter := range unmounters {
				n.requireGone(unmounter.GetPath())
			}
			require.NoError(t, n.server.LinkUp())
		})
	}
}

// TestNFSLoad: neither a server that is started again nor a link that is cut for a
// while loses what is written, or a volume that is set up or taken down meanwhile.
func TestNFSLoad(t *testing.T) {
	n := newNode(t, nfs.Config{})
	path := n.exported("a")
	at := n.up(n.brief(path), "1").Mountpoint
	stop := make(chan struct{})
	var load sync.WaitGroup
	written := 0
	load.Go(func() {
		for ; !isClosed(stop); written++ {
			if !assert.NoError(t, writeSynced(fmt.Sprint(at, "/", written))) {
				return
			}
		}
	})
	load.Go(func() {
		for i := 0; !isClosed(stop); i++ {
			spec, pod := n.brief(path, fmt.Sprint("retrans=", 2+i%3)), podOf("2")
			mounter, err := n.plugin.NewMounter(spec, pod)
			assert.NoError(t, err)
			assert.NoError(t, mounter.SetUp(n.patiently(), volume.MounterArgs{}))
			unmounter, err := n.plugin.NewUnmounter(spec.Name(), pod.UID)
			assert.NoError(t, err)
			assert.NoError(t, unmounter.TearDown(n.patiently()))
		}
	})
	for _, how := range deaths {
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, how.die(n))
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, how.live(n))
	}
	close(stop)
	load.Wait()
	require.Positive(t, written)
	for i := range written {
		text, err := os.ReadFile(fmt.Sprint(path, "/", i))
		require.NoError(t, err)
		require.Equal(t, "written", string(text))
	}
	n.down(n.brief(path), "1")
	require.Empty(t, n.mounted())
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func writeSynced(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = file.WriteString("written")
	return errors.Join(err, file.Sync(), file.Close())
}
