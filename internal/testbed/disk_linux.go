package testbed

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// Tmpfs mounts a tmpfs on a directory, large enough for any test, until the test ends.
func Tmpfs(t testing.TB, dir string) string {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=0,size=80%,mode=755"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// Loop attaches a file to a loop device with further flags of losetup, until the test ends: also if the process
// is killed. A device that is in use after the test fails the test.
func Loop(t testing.TB, image string, flags ...string) (device string) {
	t.Helper()
	out, err := exec.Command("losetup", append(flags, "--find", "--show", image)...).CombinedOutput()
	if err != nil {
		mounttest.SkipWithout(t, "loop", string(out)+err.Error())
	}
	device = strings.TrimSpace(string(out))
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	require.NoError(t, err)
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	require.NoError(t, err)
	info.Flags |= unix.LO_FLAGS_AUTOCLEAR // the kernel detaches the file when nothing has the device open
	require.NoError(t, unix.IoctlLoopSetStatus64(int(f.Fd()), info))
	t.Cleanup(func() {
		require.NoError(t, f.Close())
		require.Eventually(t, func() bool { return !isAttached(device, info) }, time.Minute, 10*time.Millisecond,
			"the test leaves %s in use", device)
	})
	return device
}

// DetachAtEnd detaches a loop device when this process ends, if it still has the file, and the devices on it: a process
// that is killed, or whose time is up, runs no cleanup.
//
// A device of [Loop] stays open until the end. DetachAtEnd is for tests that ask which program has the device open.
func DetachAtEnd(t testing.TB, device string) {
	t.Helper()
	file, err := os.ReadFile("/sys/block/" + filepath.Base(device) + "/loop/backing_file")
	require.NoError(t, err)
	StartDetacher(t)
	input, _ := detacher()
	_, err = fmt.Fprintf(input, "%s %s", device, file)
	require.NoError(t, err)
}

// StartDetacher starts the process of [DetachAtEnd]. A test that counts descriptors calls it before.
func StartDetacher(t testing.TB) {
	t.Helper()
	_, err := detacher()
	require.NoError(t, err)
}

// detacher starts a shell that reads lines until this process has ended. It knows a file by its name alone: file
// systems in memory share numbers with earlier ones. The name is shorter by the file system's place once that is gone.
var detacher = sync.OnceValues(func() (io.Writer, error) {
	const script = `lines=$(cat); printf '%s\n' "$lines" | while read -r device file; do
		now=$(cat "/sys/block/${device#/dev/}/loop/backing_file") || continue
		case $file in *"${now% (deleted)}") ;; *) continue ;; esac
		for name in $(losetup --noheadings --output NAME --associated "$device") "$device"; do losetup --detach "$name"; done
	done`
	c := exec.Command("/bin/sh", "-c", script)
	c.Env, c.Dir = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, "/"
	c.SysProcAttr = &unix.SysProcAttr{Setsid: true} // a signal to the group of the tests is not for it
	input, err := c.StdinPipe()
	return input, errors.Join(err, c.Start())
})

// isAttached reports whether a loop device has the file that it had.
func isAttached(device string, had *unix.LoopInfo64) bool {
	f, err := os.Open(device)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	info, err := unix.IoctlLoopGetStatus64(int(f.Fd()))
	return err == nil && info.Device == had.Device && info.Inode == had.Inode
}

// Image creates an empty file of a size.
func Image(t testing.TB, name string, size int64) {
	t.Helper()
	require.NoError(t, os.WriteFile(name, nil, 0o600))
	require.NoError(t, os.Truncate(name, size))
}

// A Disk is a file system in a file.
type Disk struct {
	FSType  string
	Size    int64
	Options []string // of mkfs
	// ProjectQuota is a mount option of ext4 or xfs for project quotas, such as prjquota.
	ProjectQuota string
}

// Run runs a test as root with the disk mounted. It skips the test if loop devices, the file
// system or its mkfs are missing.
func (d Disk) Run(t *testing.T, test func(t *testing.T, dir string)) {
	t.Helper()
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := Dir(t)
	image, target := dir+"/image", dir+"/target"
	Image(t, image, d.Size)
	require.NoError(t, os.Mkdir(target, 0o755))
	options, data := d.options()
	if out, err := exec.Command("mkfs."+d.FSType, append(options, image)...).CombinedOutput(); err != nil {
		mounttest.SkipWithout(t, d.lack(), string(out)+err.Error())
	}
	err := unix.Mount(Loop(t, image), target, d.FSType, 0, data)
	if errors.Is(err, unix.ENODEV) || err != nil && d.ProjectQuota != "" {
		mounttest.SkipWithout(t, d.lack(), "this kernel does not have it")
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, unix.Unmount(target, 0)) })
	test(t, target)
}

// options returns the options of mkfs and those of mount.
func (d Disk) options() (mkfs []string, mount string) {
	mkfs = append(mkfs, d.Options...)
	if d.ProjectQuota != "" && d.FSType == "ext4" {
		mkfs = append(mkfs, "-O", "project,quota", "-E", "quotatype=prjquota")
	}
	return mkfs, d.ProjectQuota
}

// lack returns the reason of a skip: machines with loop devices have ext4.
func (d Disk) lack() string {
	switch {
	case d.ProjectQuota != "":
		return "projectquota"
	case d.FSType == "ext4":
		return "loop"
	}
	return d.FSType
}

// WithoutCapability runs work on a thread that lacks a capability, such as unix.CAP_SYS_RESOURCE, and
// returns its error. The thread ends afterwards.
func WithoutCapability(capability int, work func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var sets [2]unix.CapUserData
		err := unix.Capget(&header, &sets[0])
		if err == nil {
			sets[capability/32].Effective &^= 1 << (capability % 32)
			err = unix.Capset(&header, &sets[0])
		}
		if err == nil {
			err = work()
		}
		done <- err
	}()
	return <-done
}

// Flags of linux/fs.h, for Protect.
const (
	Immutable  = 0x10
	AppendOnly = 0x20
)

// Protect sets one of these flags of a file, as chattr(1) does, or clears both.
func Protect(t testing.TB, name string, flag int) {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	require.NoError(t, err)
	flags = flags&^(Immutable|AppendOnly) | flag
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags))
}
