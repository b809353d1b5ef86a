package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// The test binary is the program mount.TYPE, too, when it is called so. What it
// does the source says: "what:directory", with a directory for what it reports.
func init() {
	switch name := filepath.Base(os.Args[0]); name {
	case "mount.tmpfs", "mount.cifs":
		os.Exit(beHelper(strings.TrimPrefix(name, "mount."), os.Args[1:]))
	}
}

func beHelper(fsType string, args []string) int {
	source, place := args[0], args[1]
	what, dir, _ := strings.Cut(source, ":")
	report(dir, "args", strings.Join(args, "\n"))
	report(dir, "env", strings.Join(os.Environ(), "\n"))
	mountIt := func(source, fsType, place string) error { return unix.Mount(source, place, fsType, 0, "") }
	switch what {
	case "good":
		return complain(mountIt(source, fsType, place))
	case "chatty":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<20))
		return complain(mountIt(source, fsType, place))
	case "other type":
		return complain(mountIt(source, "ramfs", place))
	case "other source":
		return complain(mountIt("other", fsType, place))
	case "nothing":
		return 0
	case "mounted and failed":
		_ = mountIt(source, fsType, place)
		return 32
	case "daemon":
		return complain(errors.Join(startSelf(fsType, "sleep:"+dir, place), mountIt(source, fsType, place)))
	case "leak":
		secret, err := os.ReadFile("/proc/self/fd/3")
		fmt.Printf("bad\nlogin: %s %v", secret, err)
		return 1
	case "hang":
		_ = startSelf(fsType, "sleep:"+dir, place)
		report(dir, "hang", strconv.Itoa(os.Getpid()))
		time.Sleep(time.Hour)
	case "escape":
		_ = startSelf(fsType, "late:"+dir, place)
		waitFor(dir, "late")
		time.Sleep(time.Hour)
	case "sleep":
		report(dir, "sleep", strconv.Itoa(os.Getpid()))
		time.Sleep(time.Hour)
	case "late":
		// Of another group, so that nobody kills it, and it holds the place.
		_, _ = unix.Setsid()
		fd, err := unix.Open(place, unix.O_PATH|unix.O_CLOEXEC, 0)
		report(dir, "late", strconv.Itoa(os.Getpid()))
		waitFor(dir, "go")
		if err == nil {
			err = mountIt(source, fsType, "/proc/self/fd/"+strconv.Itoa(fd))
		}
		report(dir, "result", fmt.Sprint(err))
	}
	return 0
}

func complain(err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// report writes a file, at once.
func report(dir, name, text string) {
	if dir == "" {
		return
	}
	temporary := filepath.Join(dir, name+".new")
	_ = os.WriteFile(temporary, []byte(text), 0o600)
	_ = os.Rename(temporary, filepath.Join(dir, name))
}

func waitFor(dir, name string) {
	for range 6000 {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func startSelf(fsType, source, place string) error {
	c := exec.Command("/proc/self/exe", source, place)
	c.Args[0] = "mount." + fsType
	return c.Start()
}

// A helped is a mounter with programs for types.
type helped struct {
	*testing.T
	*mount.Mounter
	dir, reports, target string
}

// onEachTierHelped runs a test with programs for these types.
func onEachTierHelped(t *testing.T, test func(h helped)) {
	onEachTier(t, mounttest.Namespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "helpers", "target", "reports")
		self, err := os.Executable()
		require.NoError(t, err)
		for _, fsType := range []string{"tmpfs", "cifs"} {
			require.NoError(t, os.Symlink(self, dir+"/helpers/mount."+fsType))
		}
		m = mount.New(mount.Config{Tier: m.Tier(), StagingDir: dir + "/staging", Helpers: []string{dir + "/none", dir + "/helpers"}})
		h := helped{t, m, dir, dir + "/reports", dir + "/target"}
		t.Cleanup(func() { // whatever a failed test leaves running
			for _, name := range []string{"sleep", "late", "hang"} {
				if pid := h.pid(name); pid > 0 {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
		})
		test(h)
	})
}

func (h helped) request(what string) mount.Request {
	return mount.Request{Source: what + ":" + h.reports, Target: h.target, FSType: "tmpfs"}
}

// reported returns what the program has written, or nothing.
func (h helped) reported(name string) string {
	text, _ := os.ReadFile(filepath.Join(h.reports, name))
	return string(text)
}

func (h helped) pid(name string) int {
	pid, _ := strconv.Atoi(h.reported(name))
	return pid
}

// nothingIsLeft makes sure that neither the target nor the staging area has
// anything of a mount.
func (h helped) nothingIsLeft() {
	h.Helper()
	require.Eventually(h, func() bool {
		table, err := h.List(h.Context())
		require.NoError(h, err)
		for _, info := range table {
			if strings.HasPrefix(info.Mountpoint, h.dir) {
				return false
			}
		}
		left, err := os.ReadDir(h.dir + "/staging")
		return len(left) == 0 && (err == nil || os.IsNotExist(err))
	}, time.Minute, 10*time.Millisecond)
}

func TestHelper(t *testing.T) {
	onEachTierHelped(t, func(h helped) {
		req := h.request("good")
		req.Options = []string{"ro", "noexec", "noatime", "size=1m", "_netdev"}
		for range 2 {
			require.NoError(h, h.Mount(h.Context(), req))
		}
		args := strings.Split(h.reported("args"), "\n")
		require.Len(h, args, 4)
		require.Equal(h, []string{req.Source, "-o", "ro,nosuid,nodev,noexec,size=1m"}, []string{args[0], args[2], args[3]})
		require.NotContains(h, args[1], h.target)
		require.Equal(h, "PATH=/usr/sbin:/usr/bin:/sbin:/bin\nLC_ALL=C", h.reported("env"))

		// The program has heeded none of its options.
		table, err := h.List(h.Context())
		require.NoError(h, err)
		at, ok := mount.Table(table).At(h.target)
		require.True(h, ok)
		require.Equal(h, mount.ReadOnly|mount.NoSUID|mount.NoDev|mount.NoExec|mount.NoAtime, at.Flags)
		require.Equal(h, "tmpfs", at.FSType)
		require.ErrorIs(h, os.WriteFile(h.target+"/file", nil, 0o600), unix.EROFS)

		other := h.request("good")
		require.ErrorIs(h, h.Mount(h.Context(), other), mount.ErrMounted)
		require.NoError(h, h.Unmount(h.Context(), h.target))
		h.nothingIsLeft()
		require.NoError(h, h.Mount(h.Context(), h.request("chatty")))
		require.NoError(h, h.Unmount(h.Context(), h.target))
		h.nothingIsLeft()
	})
}

func TestHelperFails(t *testing.T) {
	onEachTierHelped(t, func(h helped) {
		for what, want := range map[string]error{
			"other type": mount.ErrNotAsRequested, "other source": mount.ErrNotAsRequested,
			"nothing": mount.ErrNotAsRequested, "mounted and failed": nil,
		} {
			err := h.Mount(h.Context(), h.request(what))
			var helper *mount.HelperError
			require.ErrorAs(h, err, &helper, what)
			require.Equal(h, h.dir+"/helpers/mount.tmpfs", helper.Helper)
			if want == nil {
				require.ErrorAs(h, err, new(*exec.ExitError))
			} else {
				require.ErrorIs(h, err, want)
			}
			require.False(h, isMountPoint(h.T, h.target), what)
			h.nothingIsLeft()
		}
		req := h.request("good")
		req.Source = "-o" + req.Source
		require.ErrorAs(h, h.Mount(h.Context(), req), new(*mount.InputError))
		require.NoError(h, os.Remove(h.dir+"/helpers/mount.tmpfs"))
		require.NoError(h, os.WriteFile(h.dir+"/helpers/mount.tmpfs", []byte("\x7fELF"), 0o755))
		var helper *mount.HelperError
		require.ErrorAs(h, h.Mount(h.Context(), h.request("good")), &helper)
		h.nothingIsLeft()
	})
}

func TestHelperIsMissing(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "target")
	for _, fsType := range []string{"cifs", "smb3", "ceph", "glusterfs"} {
		m := mount.New(mount.Config{StagingDir: dir + "/staging", Helpers: []string{dir}})
		err := m.Mount(t.Context(), mount.Request{Source: "//a/b", Target: dir + "/target", FSType: fsType})
		require.ErrorIs(t, err, exec.ErrNotFound)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		require.ErrorContains(t, err, "mount."+fsType)
	}
	m := mount.New(mount.Config{Helpers: []string{"sbin"}})
	var input *mount.InputError
	require.ErrorAs(t, m.Mount(t.Context(), mount.Request{Source: "x", Target: dir + "/target", FSType: "tmpfs"}), &input)
	require.Equal(t, "Config.Helpers[0]", input.Field)
}

// TestHelperUse: the request can do without a program, and insist on one.
func TestHelperUse(t *testing.T) {
	onEachTierHelped(t, func(h helped) {
		req := h.request("good")
		req.Helper = mount.HelperNever
		require.NoError(h, h.Mount(h.Context(), req))
		require.Empty(h, h.reported("args"))
		require.NoError(h, h.Unmount(h.Context(), h.target))
		req.Helper = mount.HelperAlways
		require.NoError(h, h.Mount(h.Context(), req))
		require.NotEmpty(h, h.reported("args"))
		require.NoError(h, h.Unmount(h.Context(), h.target))

		req.FSType = "nfs"
		require.ErrorIs(h, h.Mount(h.Context(), req), exec.ErrNotFound)
		m := mount.New(mount.Config{Tier: h.Tier(), StagingDir: h.dir + "/staging"})
		req.FSType = "no-such-type"
		require.ErrorContains(h, m.Mount(h.Context(), req), "mount.no-such-type")
		require.False(h, isMountPoint(h.T, h.target))
		h.nothingIsLeft()
	})
}

// TestHelperSecrets: a program gets them in a file, and nobody sees them, even if
// it prints them.
func TestHelperSecrets(t *testing.T) {
	onEachTierHelped(t, func(h helped) {
		req := h.request("leak")
		req.FSType, req.Options = "cifs", []string{"vers=3.0"}
		req.Secrets = []mount.Secret{mount.NewSecret("username=bob"), mount.NewSecret("password=hunter2")}
		err := h.Mount(h.Context(), req)
		var helper *mount.HelperError
		require.ErrorAs(h, err, &helper)
		require.Equal(h, "bad login: [redacted] [redacted] <nil>", helper.Output)
		require.NotContains(h, err.Error(), "hunter2")
		require.NotContains(h, h.reported("args")+h.reported("env"), "hunter2")
		require.True(h, strings.HasSuffix(h.reported("args"), "-o\nnosuid,nodev,vers=3.0,credentials=/proc/self/fd/3"))

		req.FSType, req.Source = "tmpfs", "good:"+h.reports
		require.ErrorAs(h, h.Mount(h.Context(), req), new(*mount.InputError), "no file for these")
		h.nothingIsLeft()
	})
}

// TestHelperHangs: it is killed with all that it has started.
func TestHelperHangs(t *testing.T) {
	onEachTierHelped(t, func(h helped) {
		_, err := h.MountRefs(h.Context(), h.dir) // makes it listen for changes, with a descriptor
		require.NoError(h, err)
		leaks := mounttest.NoLeaks(h.T)
		cause := errors.New("the pod is gone")
		ctx, cancel := context.WithCancelCause(h.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			waitFor(h.reports, "hang")
			waitFor(h.reports, "sleep")
			cancel(cause)
		}()
		err = h.Mount(ctx, h.request("hang"))
		<-done
		require.ErrorIs(h, err, cause)
		require.ErrorIs(h, err, context.Canceled)
		require.NotErrorIs(h, err, mount.ErrUncertain)
		require.False(h, isMountPoint(h.T, h.target))
		for _, name := range []string{"hang", "sleep"} {
			require.Positive(h, h.pid(name))
			require.Eventually(h, func() bool { return isDead(h.pid(name)) }, time.Minute, 10*time.Millisecond, name)
		}
		h.nothingIsLeft()
		require.NoError(h, h.Mount(h.Context(), h.request("good")), "the target is free")
		require.NoError(h, h.Unmount(h.Context(), h.target))
		leaks()
	})
}

// TestHelperIsLate: one that gets away mounts nowhere.
func TestHelperIsLate(t *testing.T) {
	onEachTierHelped(t, func(h helped) {
		ctx, cancel := context.WithCancel(h.Context())
		go func() {
			waitFor(h.reports, "late")
			cancel()
		}()
		require.ErrorIs(h, h.Mount(ctx, h.request("escape")), context.Canceled)
		h.nothingIsLeft()
		report(h.reports, "go", "")
		require.Eventually(h, func() bool { return h.reported("result") != "" }, time.Minute, 10*time.Millisecond)
		require.NotEqual(h, fmt.Sprint(nil), h.reported("result"))
		require.False(h, isMountPoint(h.T, h.target))
		h.nothingIsLeft()
	})
}

// TestHelperDaemon: what a program leaves running to serve what it has mounted
// lives.
func TestHelperDaemon(t *testing.T) {
	onEachTierHelped(t, func(h helped) {
		require.NoError(h, h.Mount(h.Context(), h.request("daemon")))
		require.Eventually(h, func() bool { return h.pid("sleep") > 0 }, time.Minute, 10*time.Millisecond)
		require.False(h, isDead(h.pid("sleep")))
		require.NoError(h, h.Unmount(h.Context(), h.target))
	})
}

// isDead reports whether a process has ended, reaped or not.
func isDead(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}
