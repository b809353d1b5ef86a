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

// uses are programs that use a volume while its server dies: shell scripts with the volume
// as their first argument. The file "shows" exists as soon as the volume is in use.
var uses = map[string]struct{ program, shows string }{
	"open":    {`exec 3>"$1/open"; echo dirty >&3; : >"$1/opened"; exec sleep 1000`, "opened"},
	"inside":  {`cd "$1"; : >inside; exec sleep 1000`, "inside"},
	"writing": {`cd "$1"; while :; do dd if=/dev/zero of=big bs=64k count=64 2>&-; : >written; done`, "written"},
}

// runProgram runs a program on a volume until the test ends.
func (n *node) runProgram(name, volume string) {
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

// specWithShortRetry returns a volume whose client tries again after five seconds what got lost when its
// server went: by itself it would wait for minutes.
func (n *node) specWithShortRetry(path string, options ...string) *volume.Spec {
	return n.pv(path, append(options, "timeo=50")...)
}

// TestNFSTearDownWithoutServer checks that a volume whose server is gone is taken down, in use or not, and
// that the process can exit.
func TestNFSTearDownWithoutServer(t *testing.T) {
	for death, how := range deaths {
		for _, use := range []string{"", "open", "inside", "writing"} {
			t.Run(death+"/"+use, func(t *testing.T) {
				if testing.Short() && (use == "inside" || use == "open" && death == "refuses") {
					t.Skip("much like the others")
				}
				n := newNode(t, nfs.Config{})
				path := n.exported("a")
				at := n.setUp(n.specWithShortRetry(path, "ro", "noexec"), "1").Mountpoint
				if use != "" {
					n.tearDown(n.specWithShortRetry(path), "1")
					at = n.setUp(n.specWithShortRetry(path), "1").Mountpoint
					n.runProgram(use, at)
				}
				require.NoError(t, how.die(n))
				c := n.command("down in time", path, false)
				require.NoError(t, c.Start())
				timer := time.AfterFunc(2*time.Minute, func() { _ = c.Process.Kill() })
				require.NoError(t, c.Wait())
				timer.Stop()
				require.Empty(t, n.mountsBelowRoot())
				n.requireGone(at)
				require.NoError(t, how.live(n))
			})
		}
	}
}

// TestNFSServerReturns: calls about a volume whose server is gone end with their contexts and
// change nothing, others go on; when the server is back the volume is as it was.
func TestNFSServerReturns(t *testing.T) {
	for death, how := range deaths {
		t.Run(death, func(t *testing.T) {
			n := newNode(t, nfs.Config{})
			path := n.exported("a")
			up, other := n.mounter(n.specWithShortRetry(path), "1"), n.mounter(n.specWithShortRetry(n.exported("b")), "1")
			before := n.setUp(n.specWithShortRetry(path), "1")
			file, err := os.Create(before.Mountpoint + "/file")
			require.NoError(t, err)
			require.NoError(t, how.die(n))
			for name, call := range map[string]func(ctx context.Context) error{
				"SetUp, up":   func(ctx context.Context) error { return up.SetUp(ctx, volume.MounterArgs{}) },
				"SetUp, new":  func(ctx context.Context) error { return other.SetUp(ctx, volume.MounterArgs{}) },
				"GetMetrics":  func(ctx context.Context) error { _, err := up.GetMetrics(ctx); return err },
				"TearDown":    n.unmounter(n.specWithShortRetry(path), "1").TearDown,
				"SetUp again": func(ctx context.Context) error { return up.SetUp(ctx, volume.MounterArgs{}) },
			} {
				n.requireEnded(call(n.within(300*time.Millisecond)), name)
			}
			found, err := n.plugin.ConstructVolumeSpec(n.patientContext(), "a", before.Mountpoint)
			require.NoError(t, err)
			require.Equal(t, path, nfsOf(found.Spec).Path)
			n.mountOthers()
			require.Equal(t, before, n.mountAt(before.Mountpoint))
			require.Len(t, n.mountsBelowRoot(), 1)

			require.NoError(t, how.live(n))
			require.NoError(t, up.SetUp(n.patientContext(), volume.MounterArgs{}))
			require.Equal(t, before, n.mountAt(before.Mountpoint))
			_, err = file.WriteString("after all")
			require.NoError(t, err)
			require.NoError(t, file.Sync())
			written, err := os.ReadFile(path + "/file")
			require.NoError(t, err)
			require.Equal(t, "after all", string(written))
			_, err = up.GetMetrics(n.patientContext())
			require.NoError(t, err)
			require.NoError(t, file.Close())
			n.tearDown(n.specWithShortRetry(path), "1")
		})
	}
}

// mountOthers mounts and unmounts file systems that do not depend on the server.
func (n *node) mountOthers() {
	n.Helper()
	for i := range 10 {
		target := n.TempDir()
		require.NoError(n, n.mounts.Mount(n.patientContext(), mount.Request{
			Source: "x", Target: target, FSType: "tmpfs", Options: []string{fmt.Sprint("size=", i+1, "M")},
		}))
		require.NoError(n, n.mounts.Unmount(n.patientContext(), target))
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
				at := n.setUp(n.specWithShortRetry(path), uid)
				if i%2 == 0 {
					n.runProgram("writing", at.Mountpoint)
				}
				unmounters = append(unmounters, n.unmounter(n.specWithShortRetry(path), uid))
			}
			require.NoError(t, n.server.LinkDown())
			var pods sync.WaitGroup
			for _, unmounter := range unmounters {
				pods.Go(func() { assert.NoError(t, tearDownRepeatedly(unmounter.TearDown)) })
			}
			pods.Wait()
			require.Empty(t, n.mountsBelowRoot())
			for _, unmounter := range unmounters {
				n.requireGone(unmounter.GetPath())
			}
			require.NoError(t, n.server.LinkUp())
		})
	}
}

// TestNFSLoad checks that neither a restart of the server nor an interruption of the link
// loses written data, or a volume that is set up or taken down meanwhile.
func TestNFSLoad(t *testing.T) {
	n := newNode(t, nfs.Config{})
	path := n.exported("a")
	at := n.setUp(n.specWithShortRetry(path), "1").Mountpoint
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
			spec, pod := n.specWithShortRetry(path, fmt.Sprint("retrans=", 2+i%3)), podOf("2")
			mounter, err := n.plugin.NewMounter(spec, pod)
			assert.NoError(t, err)
			assert.NoError(t, mounter.SetUp(n.patientContext(), volume.MounterArgs{}))
			unmounter, err := n.plugin.NewUnmounter(spec.Name(), pod.UID)
			assert.NoError(t, err)
			assert.NoError(t, unmounter.TearDown(n.patientContext()))
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
	n.tearDown(n.specWithShortRetry(path), "1")
	require.Empty(t, n.mountsBelowRoot())
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
