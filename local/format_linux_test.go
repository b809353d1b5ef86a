package local_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// replacePrograms runs shell commands in the place of programs, with their arguments, of which
// "$DEVICE" is the last. Others run as they are.
func (r *rig) replacePrograms(scripts map[string]string) {
	r.t.Helper()
	plugin := local.New(local.Config{Mounter: r.mount, Roots: []string{r.disks}, DeviceLinks: []string{r.links}})
	plugin.SetPrograms(scriptedPrograms{disk.SystemPrograms(), scripts})
	require.NoError(r.t, plugin.Init(context.Background(), r.host))
	r.plugin = plugin
}

// scriptedPrograms runs scripts in the place of programs.
type scriptedPrograms struct {
	disk.Programs
	scripts map[string]string
}

// Run implements disk.Programs.
func (s scriptedPrograms) Run(ctx context.Context, c disk.Command) error {
	if script, ok := s.scripts[c.Name]; ok {
		script = "DEVICE=" + c.Args[len(c.Args)-1] + "; " + script
		c.Name, c.Args = "sh", append([]string{"-c", script, c.Name}, c.Args...)
	}
	return s.Programs.Run(ctx, c)
}

// TestMkfsResultIsVerified checks that a format fails if the device carries no file system
// afterwards, although mkfs succeeded.
func TestMkfsResultIsVerified(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("blank", smallDisk)
	s := deviceSpec(r.link("blank", d), "ext4")
	r.replacePrograms(map[string]string{"mkfs.ext4": "exit 0"})
	require.ErrorContains(t, r.mountDevice(s), "does not carry")
	require.Empty(t, mountsBelow(t, r.mount, r.dir))
	r.restart(local.Config{})
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
}

// TestWithoutPrograms: mkfs is needed, and no other program.
func TestWithoutPrograms(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	bin := t.TempDir()
	mkfs, err := exec.LookPath("mkfs.ext4")
	require.NoError(t, err)
	t.Setenv("PATH", bin)
	d := r.disk("disk", smallDisk)
	s := deviceSpec(r.link("disk", d), "ext4")
	before := d.sum(t)
	err = r.mountDevice(s)
	require.ErrorIs(t, err, disk.ErrToolMissing)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.Equal(t, before, d.sum(t))
	require.NoError(t, os.Symlink(mkfs, filepath.Join(bin, "mkfs.ext4")))
	for range 2 {
		require.NoError(t, r.mountDevice(s))
		require.NoError(t, r.unmountDevice(s))
	}
}

// mountUntil mounts the device with a context that ends when the file is there.
func (r *rig) mountUntil(s *volume.Spec, file string) error {
	r.t.Helper()
	ctx, cancel := context.WithCancel(r.t.Context())
	defer cancel()
	done := make(chan error, 1)
	m, err := r.plugin.NewDeviceMounter()
	require.NoError(r.t, err)
	at := r.shared(s)
	go func() { done <- m.MountDevice(ctx, s, at, volume.DeviceMounterArgs{}) }()
	require.Eventually(r.t, func() bool { _, err := os.Stat(file); return err == nil }, longWait, tick)
	cancel()
	return <-done
}

// interrupt lets the context of MountDevice end when garbage has been written to the disk.
func (r *rig) interrupt(t *testing.T, s *volume.Spec, d testDisk) {
	t.Helper()
	began := filepath.Join(r.dir, "began")
	_ = os.Remove(began)
	r.replacePrograms(map[string]string{"mkfs.ext4": "echo garbage | dd of=$DEVICE bs=8k seek=1 conv=notrunc; sleep 100000 & echo $! >" + began + ".new; mv " + began + ".new " + began + "; wait"})
	err := r.mountUntil(s, began)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	requireKilled(t, began)
	requireUnlocked(t, d)
	text := make([]byte, 7)
	f, err := os.Open(d.device)
	require.NoError(t, err)
	_, err = f.ReadAt(text, 8<<10)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, "garbage", string(text))
}

// TestFormatInterrupted checks that the end of a context kills the program that formats a
// device, and that the same call formats again. A change that others make to the device
// meanwhile stays.
func TestFormatInterrupted(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	s := deviceSpec(r.link("disk", d), "ext4")
	interrupt := func() { r.interrupt(t, s, d) }
	interrupt()
	r.restart(local.Config{})
	require.NoError(t, r.mountDevice(s), "it was this volume's to format")
	require.NoError(t, r.unmountDevice(s))

	require.NoError(t, r.plugin.Forget(t.Context(), "pv"))
	other := r.disk("other", smallDisk)
	d = other
	r.link("disk", other)
	interrupt()
	run(t, "mkfs.ext4", "-q", "-F", other.device)
	r.restart(local.Config{})
	before := other.sum(t)
	s.PersistentVolume.Spec.Local.FSType = nil
	readOnly := deviceSpec(r.links+"/disk", "", "ro")
	require.NoError(t, r.mountDevice(readOnly), "somebody else has formatted it")
	require.NoError(t, r.unmountDevice(readOnly))
	require.Equal(t, before, other.sum(t))

	require.NoError(t, r.plugin.Forget(t.Context(), "pv"))
	d = r.disk("third", smallDisk)
	r.link("disk", d)
	interrupt()
	fourth := r.disk("fourth", smallDisk) // in its place, with the same garbage
	same := make([]byte, 16<<10)
	f, err := os.Open(d.device)
	require.NoError(t, err)
	_, err = f.Read(same)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.WriteFile(fourth.device, same, 0))
	r.link("disk", fourth)
	r.restart(local.Config{})
	before = fourth.sum(t)
	var carries *local.ContentError
	require.ErrorAs(t, r.mountDevice(s), &carries)
	require.Equal(t, before, fourth.sum(t))
}

// TestFormatNotStarted checks that a device which stayed blank because mkfs did not start
// does not belong to the volume: later content is not taken for the remains of mkfs.
func TestFormatNotStarted(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	s := deviceSpec(r.link("disk", d), "ext4")
	r.replacePrograms(map[string]string{"mkfs.ext4": "exit 127"})
	for range 2 {
		require.Error(t, r.mountDevice(s))
	}
	require.NoError(t, os.WriteFile(d.device, []byte("precious"), 0))
	before := d.sum(t)
	r.restart(local.Config{})
	var carries *local.ContentError
	require.ErrorAs(t, r.mountDevice(s), &carries)
	require.Equal(t, before, d.sum(t))
}

// TestFormatDisowned checks that a device which another volume has used since the
// interruption of its format is not wiped, regardless of its content.
func TestFormatDisowned(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	s := deviceSpec(r.link("disk", d), "ext4")
	r.interrupt(t, s, d)
	r.restart(local.Config{})
	raw := blockSpec(r.links + "/disk")
	raw.PersistentVolume.Name, raw.PersistentVolume.UID = "raw", "uid-of-raw"
	m := r.mapper(raw, "1")
	_, err := m.MapPodDevice(t.Context(), volume.BlockVolumePaths{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(podLink(m), []byte("precious"), 0))
	before := d.sum(t)
	u, err := r.plugin.NewBlockVolumeUnmapper("raw", "1")
	require.NoError(t, err)
	require.NoError(t, u.UnmapPodDevice(t.Context()))
	global, err := u.GetGlobalMapPath(raw)
	require.NoError(t, err)
	require.NoError(t, u.TearDownDevice(t.Context(), volume.BlockVolumePaths{GlobalMapPath: global}))
	r.requireReleased(d)
	var carries *local.ContentError
	require.ErrorAs(t, r.mountDevice(s), &carries)
	require.Equal(t, before, d.sum(t))
}

// TestFormatInterruptedLate: a device that was formatted, and is not known to be, is
// formatted again: no pod has used it.
func TestFormatInterruptedLate(t *testing.T) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) { testInterruptedLate(t, fsType, "") })
	}
}

// TestFormatInterruptedBeforeSuperblock checks that a device is formatted again if the
// format was interrupted just before its end: mkfs.ext4 writes the superblock last, and
// mkfs.btrfs writes it after the first trees.
func TestFormatInterruptedBeforeSuperblock(t *testing.T) {
	for fsType, place := range map[string]string{"ext4": "bs=1k seek=1", "btrfs": "bs=64k seek=1"} {
		t.Run(fsType, func(t *testing.T) {
			testInterruptedLate(t, fsType, " && dd if=/dev/zero of=$DEVICE count=1 conv=notrunc "+place)
		})
	}
}

func testInterruptedLate(t *testing.T, fsType, and string) {
	t.Helper()
	r := newRig(t, fsType)
	if r == nil {
		return
	}
	d := r.disk("disk", diskFor[fsType])
	s := deviceSpec(r.link("disk", d), fsType)
	done := filepath.Join(r.dir, "done")
	r.replacePrograms(map[string]string{"mkfs." + fsType: `"$0" "$@"` + and + ` && ` + writePID(done) + `; exec sleep 100000`})
	require.ErrorIs(t, r.mountUntil(s, done), context.Canceled)
	requireKilled(t, done)
	requireUnlocked(t, d)
	r.restart(local.Config{})
	r.mountFirst(s)
	require.NoError(t, r.unmountDevice(s))
}

// writePID is a command of a shell that writes its process ID to a file, whole.
func writePID(file string) string { return "echo $$ >" + file + ".new && mv " + file + ".new " + file }

// requireKilled waits for the end of a process, of which a file has the ID.
func requireKilled(t *testing.T, pidFile string) {
	t.Helper()
	pid, err := os.ReadFile(pidFile)
	require.NoError(t, err)
	require.Eventually(t, func() bool { return !runs(strings.TrimSpace(string(pid))) }, longWait, tick,
		"processes that mkfs has started are killed, too")
}

// requireUnlocked waits until the plugin has let a device go that it formats: that may be after its call has
// returned, and another plugin is refused until then.
func requireUnlocked(t *testing.T, d testDisk) {
	t.Helper()
	f, err := os.OpenFile(d.device, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	require.Eventually(t, func() bool {
		lock := unix.Flock_t{Type: unix.F_WRLCK}
		require.NoError(t, unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock))
		return lock.Type == unix.F_UNLCK
	}, longWait, tick)
}

// runs reports whether a process is still there, and not a zombie.
func runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// formatted is a rig with a volume that has been mounted, and is not now.
func formatted(t *testing.T) (*rig, *volume.Spec) {
	t.Helper()
	r := newRig(t, "ext4")
	if r == nil {
		return nil, nil
	}
	s := deviceSpec(r.link("disk", r.disk("disk", smallDisk)), "ext4")
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
	return r, s
}

// TestFsckKilled checks that the error is uncertain if a context ends while fsck runs: fsck
// may have changed the file system.
func TestFsckKilled(t *testing.T) {
	r, s := formatted(t)
	if r == nil {
		return
	}
	began := filepath.Join(r.dir, "began")
	r.replacePrograms(map[string]string{"fsck.ext4": writePID(began) + "; exec sleep 100000"})
	err := r.mountUntil(s, began)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	requireKilled(t, began)
	r.restart(local.Config{})
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
}

// TestFsckFails: a file system that fsck cannot repair is not mounted.
func TestFsckFails(t *testing.T) {
	r, s := formatted(t)
	if r == nil {
		return
	}
	r.replacePrograms(map[string]string{"fsck.ext4": "exit 4"})
	err := r.mountDevice(s)
	require.ErrorIs(t, err, local.ErrFileSystemDamaged)
	require.Equal(t, volume.Final, volume.KindOf(err))
	var of *local.DeviceError
	require.ErrorAs(t, err, &of)
	require.Empty(t, mountsBelow(t, r.mount, r.dir))
}

// TestDuplicateFileSystem checks the error for a copy of a file system that is mounted
// already.
func TestDuplicateFileSystem(t *testing.T) {
	r := newRig(t, "xfs")
	if r == nil {
		return
	}
	first, second := r.disk("first", largeDisk), r.disk("second", largeDisk)
	s := deviceSpec(r.link("first", first), "xfs")
	if err := r.mountDevice(s); err != nil && strings.Contains(err.Error(), "no such device") {
		mounttest.SkipWithout(t, "xfs", err) // the kernel lacks it
	} else {
		require.NoError(t, err)
	}
	require.NoError(t, r.unmountDevice(s))
	run(t, "cp", "--sparse=always", first.image, second.image)
	require.NoError(t, r.mountDevice(s))
	copied := deviceSpec(r.link("second", second), "xfs")
	copied.PersistentVolume.Name, copied.PersistentVolume.UID = "copied", "uid-of-copied"
	err := r.mountDevice(copied)
	require.ErrorIs(t, err, local.ErrDuplicateFileSystem)
	require.Equal(t, volume.Final, volume.KindOf(err))
	copied.PersistentVolume.Spec.MountOptions = []string{"nouuid"}
	require.NoError(t, r.mountDevice(copied))
	require.NoError(t, r.unmountDevice(copied))
	require.NoError(t, r.unmountDevice(s))
}
