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

// The test binary acts as the helper mount.TYPE if it is executed by that name. The source
// selects its behavior, and the directory of its reports: "behavior:directory".
func init() {
	switch name := filepath.Base(os.Args[0]); name {
	case "mount.tmpfs", "mount.cifs", "mount.efs", "mount.fuse":
		os.Exit(runHelper(strings.TrimPrefix(name, "mount."), os.Args[1:]))
	}
}

// runHelper is the main function of the helper. It returns the exit status.
func runHelper(fsType string, args []string) int {
	source, place := args[0], args[1]
	behavior, dir, _ := strings.Cut(source, ":")
	writeReport(dir, "args", strings.Join(args, "\n"))
	writeReport(dir, "env", strings.Join(os.Environ(), "\n"))
	if fsType == "efs" || fsType == "fuse" {
		fsType = "tmpfs" // the types of these helpers differ from those in the mount table
	}
	mountFS := func(source, fsType, place string) error { return unix.Mount(source, place, fsType, 0, "") }
	switch behavior {
	case "good":
		return exitStatus(mountFS(source, fsType, place))
	case "chatty":
		fmt.Println("out")
		fmt.Fprintln(os.Stderr, strings.Repeat("x", 1<<20))
		return exitStatus(mountFS(source, fsType, place))
	case "other type":
		return exitStatus(mountFS(source, "ramfs", place))
	case "other source":
		return exitStatus(mountFS("other", fsType, place))
	case "nothing":
		return 0
	case "mounted and failed":
		_ = mountFS(source, fsType, place)
		return 32
	case "daemon":
		return exitStatus(errors.Join(startHelper(fsType, "sleep:"+dir, place), mountFS(source, fsType, place)))
	case "keep":
		secret, _ := os.ReadFile("/proc/self/fd/3")
		writeReport(dir, "secret", string(secret))
		fmt.Printf("login: %s", secret)
		return 1
	case "leak":
		secret, err := os.ReadFile("/proc/self/fd/3")
		fmt.Printf("bad\nlogin: %s %v", secret, err)
		return 1
	case "hang":
		_ = startHelper(fsType, "sleep:"+dir, place)
		writeReport(dir, "hang", strconv.Itoa(os.Getpid()))
		time.Sleep(time.Hour)
	case "escape":
		_ = startHelper(fsType, "late:"+dir, place)
		awaitReport(dir, "late")
		time.Sleep(time.Hour)
	case "sleep":
		writeReport(dir, "sleep", strconv.Itoa(os.Getpid()))
		time.Sleep(time.Hour)
	case "late":
		// Its own process group protects it from the kill of the helper's group. It opens
		// the place in order to mount there later.
		_, _ = unix.Setsid()
		fd, err := unix.Open(place, unix.O_PATH|unix.O_CLOEXEC, 0)
		writeReport(dir, "late", strconv.Itoa(os.Getpid()))
		awaitReport(dir, "go")
		if err == nil {
			err = mountFS(source, fsType, "/proc/self/fd/"+strconv.Itoa(fd))
		}
		writeReport(dir, "result", fmt.Sprint(err))
	}
	return 0
}

// exitStatus prints err, if any, and returns the exit status of the helper.
func exitStatus(err error) int {
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// writeReport writes a report in one step: a reader sees all of it or no file.
func writeReport(dir, name, text string) {
	if dir == "" {
		return
	}
	temporary := filepath.Join(dir, name+".new")
	_ = os.WriteFile(temporary, []byte(text), 0o600)
	_ = os.Rename(temporary, filepath.Join(dir, name))
}

// awaitReport waits up to a minute for a report with a name.
func awaitReport(dir, name string) {
	for range 6000 {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// startHelper starts another helper process, which continues when this one has ended.
func startHelper(fsType, source, place string) error {
	c := exec.Command("/proc/self/exe", source, place)
	c.Args[0] = "mount." + fsType
	return c.Start()
}

// A helperTest is a test of a mounter with a helper for some types.
type helperTest struct {
	*testing.T
	*mount.Mounter
	dir, reports, target string
}

// onEachTierWithHelpers runs a test on each tier with helpers for tmpfs, cifs, efs and fuse.
func onEachTierWithHelpers(t *testing.T, test func(h helperTest)) {
	onEachTier(t, mounttest.Namespace, func(t *testing.T, m *mount.Mounter) {
		dir := mkdirs(t, "helpers", "target", "reports")
		self, err := os.Executable()
		require.NoError(t, err)
		for _, fsType := range []string{"tmpfs", "cifs", "efs", "fuse"} {
			require.NoError(t, os.Symlink(self, dir+"/helpers/mount."+fsType))
		}
		m = mount.New(mount.Config{Tier: m.Tier(), StagingDir: dir + "/staging", Helpers: []string{dir + "/none", dir + "/helpers"}})
		h := helperTest{t, m, dir, dir + "/reports", dir + "/target"}
		t.Cleanup(func() { // kills the helpers of a failed test
			for _, name := range []string{"sleep", "late", "hang"} {
				if pid := h.reportedPID(name); pid > 0 {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
		})
		test(h)
	})
}

func (h helperTest) request(behavior string) mount.Request {
	return mount.Request{Source: behavior + ":" + h.reports, Target: h.target, FSType: "tmpfs"}
}

// readReport returns the program's report with a name, or "" without one.
func (h helperTest) readReport(name string) string {
	text, _ := os.ReadFile(filepath.Join(h.reports, name))
	return string(text)
}

func (h helperTest) reportedPID(name string) int {
	pid, _ := strconv.Atoi(h.readReport(name))
	return pid
}

// requireNoMounts waits until the mount table has no mount below the test directory, and the
// staging directory is empty.
func (h helperTest) requireNoMounts() {
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

func TestHelperMounts(t *testing.T) {
	onEachTierWithHelpers(t, func(h helperTest) {
		req := h.request("good")
		req.Options = []string{"ro", "noexec", "noatime", "size=1m", "_netdev"}
		for range 2 {
			require.NoError(h, h.Mount(h.Context(), req))
		}
		args := strings.Split(h.readReport("args"), "\n")
		require.Len(h, args, 4)
		require.Equal(h, []string{req.Source, "-o", "ro,nosuid,nodev,noexec,size=1m"}, []string{args[0], args[2], args[3]})
		require.NotContains(h, args[1], h.target)
		require.Equal(h, "PATH=/usr/sbin:/usr/bin:/sbin:/bin\nLC_ALL=C", h.readReport("env"))

		// The helper has applied none of its options: the mounter sets the flags.
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
		h.requireNoMounts()
		require.NoError(h, h.Mount(h.Context(), h.request("chatty")))
		require.NoError(h, h.Unmount(h.Context(), h.target))
		h.requireNoMounts()
	})
}

func TestHelperFailure(t *testing.T) {
	onEachTierWithHelpers(t, func(h helperTest) {
		for behavior, want := range map[string]error{
			"other type": mount.ErrNotAsRequested, "other source": mount.ErrNotAsRequested,
			"nothing": mount.ErrNotAsRequested, "mounted and failed": nil,
		} {
			err := h.Mount(h.Context(), h.request(behavior))
			var helper *mount.HelperError
			require.ErrorAs(h, err, &helper, behavior)
			require.Equal(h, h.dir+"/helpers/mount.tmpfs", helper.Helper)
			if want == nil {
				require.ErrorAs(h, err, new(*exec.ExitError))
			} else {
				require.ErrorIs(h, err, want)
			}
			require.False(h, isMountPoint(h.T, h.target), behavior)
			h.requireNoMounts()
		}
		req := h.request("good")
		req.Source = "-o" + req.Source
		require.ErrorAs(h, h.Mount(h.Context(), req), new(*mount.InputError))
		require.NoError(h, os.Remove(h.dir+"/helpers/mount.tmpfs"))
		require.NoError(h, os.WriteFile(h.dir+"/helpers/mount.tmpfs", []byte("\x7fELF"), 0o755))
		var helper *mount.HelperError
		require.ErrorAs(h, h.Mount(h.Context(), h.request("good")), &helper)
		h.requireNoMounts()
	})
}

func TestMissingHelper(t *testing.T) {
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

// TestHelperUse: with HelperNever no helper runs, and with HelperAlways a missing helper is an
// error.
func TestHelperUse(t *testing.T) {
	onEachTierWithHelpers(t, func(h helperTest) {
		req := h.request("good")
		req.Helper = mount.HelperNever
		require.NoError(h, h.Mount(h.Context(), req))
		require.Empty(h, h.readReport("args"))
		require.NoError(h, h.Unmount(h.Context(), h.target))
		req.Helper = mount.HelperAlways
		require.NoError(h, h.Mount(h.Context(), req))
		require.NotEmpty(h, h.readReport("args"))
		require.NoError(h, h.Unmount(h.Context(), h.target))

		req.FSType = "nfs"
		require.ErrorIs(h, h.Mount(h.Context(), req), exec.ErrNotFound)
		m := mount.New(mount.Config{Tier: h.Tier(), StagingDir: h.dir + "/staging"})
		req.FSType = "no-such-type"
		require.ErrorContains(h, m.Mount(h.Context(), req), "mount.no-such-type")
		require.False(h, isMountPoint(h.T, h.target))
		h.requireNoMounts()
	})
}

// TestHelperSecrets: a helper receives secrets in a file. Its arguments and environment, and
// the errors of Mount, do not contain them, even if the helper prints them.
func TestHelperSecrets(t *testing.T) {
	onEachTierWithHelpers(t, func(h helperTest) {
		req := h.request("leak")
		req.FSType, req.Options = "cifs", []string{"vers=3.0"}
		req.Secrets = []mount.Secret{mount.NewSecret("username=bob"), mount.NewSecret("password=hunter2")}
		err := h.Mount(h.Context(), req)
		var helper *mount.HelperError
		require.ErrorAs(h, err, &helper)
		require.Equal(h, "bad login: [redacted] [redacted] <nil>", helper.Output)
		require.NotContains(h, err.Error(), "hunter2")
		require.NotContains(h, h.readReport("args")+h.readReport("env"), "hunter2")
		require.True(h, strings.HasSuffix(h.readReport("args"), "-o\nnosuid,nodev,vers=3.0,credentials=/proc/self/fd/3"))

		req.FSType, req.Source = "tmpfs", "good:"+h.reports
		require.ErrorAs(h, h.Mount(h.Context(), req), new(*mount.InputError), "tmpfs has no secret file")
		h.requireNoMounts()
	})
}

// TestHelperCredentials: the helper receives the content of a credentials file together with the
// other secrets. No argument and no output shows its name or its content.
func TestHelperCredentials(t *testing.T) {
	onEachTierWithHelpers(t, func(h helperTest) {
		file := h.dir + "/secrets of bob"
		const password = "hunter2,\"`$x"
		require.NoError(h, os.WriteFile(file, []byte("username=bobby2\npassword="+password), 0o600))
		req := h.request("keep")
		req.FSType = "cifs"
		req.Secrets = []mount.Secret{mount.NewSecret("credentials=" + file), mount.NewSecret("domain=example")}
		err := h.Mount(h.Context(), req)
		var helper *mount.HelperError
		require.ErrorAs(h, err, &helper)
		require.Equal(h, "login: [redacted] [redacted] [redacted]", helper.Output)
		require.Equal(h, "username=bobby2\npassword="+password+"\ndomain=example\n", h.readReport("secret"))
		require.True(h, strings.HasSuffix(h.readReport("args"), "-o\nnosuid,nodev,credentials=/proc/self/fd/3"))

		require.NoError(h, unix.Mkfifo(h.dir+"/pipe", 0o600))
		require.NoError(h, os.WriteFile(h.dir+"/large", make([]byte, 1<<16+1), 0o600))
		for name, want := range map[string]string{
			h.dir + "/none": "no such file", h.dir + "/pipe": "not a regular file", h.dir + "/large": "larger than 65536",
			"secrets": "absolute", "": "absolute",
		} {
			req.Secrets = []mount.Secret{mount.NewSecret("cred=" + name)}
			err := h.Mount(h.Context(), req)
			require.ErrorContains(h, err, "Secrets[0]")
			require.ErrorContains(h, err, want)
			if name != "" {
				require.NotContains(h, strings.ReplaceAll(err.Error(), h.target, ""), name)
			}
		}
		h.requireNoMounts()
	})
}

// TestHelperTypes: a helper's mount may have another type, and another source, in the mount
// table than the request, if the configuration permits that.
func TestHelperTypes(t *testing.T) {
	onEachTierWithHelpers(t, func(h helperTest) {
		config := mount.Config{Tier: h.Tier(), StagingDir: h.dir + "/staging", Helpers: []string{h.dir + "/helpers"}}
		types := map[string]mount.HelperType{
			"efs": {MountedAs: []string{"nfs4", "tmpfs"}, AnySource: true}, "fuse.sshfs": {MountedAs: []string{"tmpfs"}},
		}
		for _, test := range []struct{ fsType, what string }{{"efs", "good"}, {"efs", "other source"}, {"fuse.sshfs", "good"}} {
			req := h.request(test.what)
			req.FSType = test.fsType
			config.HelperTypes = nil
			require.ErrorIs(h, mount.New(config).Mount(h.Context(), req), mount.ErrNotAsRequested)
			config.HelperTypes = types
			m := mount.New(config)
			for range 2 {
				require.NoError(h, m.Mount(h.Context(), req))
			}
			table, err := h.List(h.Context())
			require.NoError(h, err)
			at, ok := mount.Table(table).At(h.target)
			require.True(h, ok)
			require.Equal(h, "tmpfs", at.FSType)
			hasType := strings.Contains(h.readReport("args"), "\n-t\n"+test.fsType)
			require.Equal(h, test.fsType != "efs", hasType, h.readReport("args"))
			require.NoError(h, m.Unmount(h.Context(), h.target))
		}
		req := h.request("other source")
		req.FSType = "fuse.sshfs"
		require.ErrorIs(h, mount.New(config).Mount(h.Context(), req), mount.ErrNotAsRequested)

		config.Helpers = []string{h.dir}
		err := mount.New(config).Mount(h.Context(), req)
		require.ErrorIs(h, err, exec.ErrNotFound)
		require.ErrorContains(h, err, "mount.fuse.sshfs")
		h.requireNoMounts()
	})
}

// TestHungHelperIsKilled: at the end of its context a hung helper is killed with its child
// processes.
func TestHungHelperIsKilled(t *testing.T) {
	onEachTierWithHelpers(t, func(h helperTest) {
		_, err := h.MountRefs(h.Context(), h.dir) // opens the feed of the mount table, which holds a descriptor
		require.NoError(h, err)
		leaks := mounttest.NoLeaks(h.T)
		cause := errors.New("the pod is gone")
		ctx, cancel := context.WithCancelCause(h.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			awaitReport(h.reports, "hang")
			awaitReport(h.reports, "sleep")
			cancel(cause)
		}()
		err = h.Mount(ctx, h.request("hang"))
		<-done
		require.ErrorIs(h, err, cause)
		require.ErrorIs(h, err, context.Canceled)
		require.NotErrorIs(h, err, mount.ErrUncertain)
		require.False(h, isMountPoint(h.T, h.target))
		for _, name := range []string{"hang", "sleep"} {
			require.Positive(h, h.reportedPID(name))
			require.Eventually(h, func() bool { return hasExited(h.reportedPID(name)) }, time.Minute, 10*time.Millisecond, name)
		}
		h.requireNoMounts()
		require.NoError(h, h.Mount(h.Context(), h.request("good")), "the target accepts a mount")
		require.NoError(h, h.Unmount(h.Context(), h.target))
		leaks()
	})
}

// TestEscapedHelperCannotMount: a helper process that survives the kill of its process group
// cannot mount in the staging area any more.
func TestEscapedHelperCannotMount(t *testing.T) {
	onEachTierWithHelpers(t, func(h helperTest) {
		ctx, cancel := context.WithCancel(h.Context())
		go func() {
			awaitReport(h.reports, "late")
			cancel()
		}()
		require.ErrorIs(h, h.Mount(ctx, h.request("escape")), context.Canceled)
		h.requireNoMounts()
		writeReport(h.reports, "go", "")
		require.Eventually(h, func() bool { return h.readReport("result") != "" }, time.Minute, 10*time.Millisecond)
		require.NotEqual(h, fmt.Sprint(nil), h.readReport("result"))
		require.False(h, isMountPoint(h.T, h.target))
		h.requireNoMounts()
	})
}

// TestHelperDaemonSurvives: the daemon that a helper leaves running, to serve the file system
// that the helper has mounted, is not killed.
func TestHelperDaemonSurvives(t *testing.T) {
	onEachTierWithHelpers(t, func(h helperTest) {
		require.NoError(h, h.Mount(h.Context(), h.request("daemon")))
		require.Eventually(h, func() bool { return h.reportedPID("sleep") > 0 }, time.Minute, 10*time.Millisecond)
		require.False(h, hasExited(h.reportedPID("sleep")))
		require.NoError(h, h.Unmount(h.Context(), h.target))
	})
}

// hasExited reports whether a process is a zombie or does not exist.
func hasExited(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z") || strings.HasPrefix(rest, "X")
}
