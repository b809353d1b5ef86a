package disk_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"golang.org/x/sys/unix"
)

// Mkfs.xfs and mkfs.btrfs refuse smaller disks.
var sizeFor = map[string]int64{"ext2": 16 << 20, "ext3": 16 << 20, "ext4": 16 << 20, "xfs": 320 << 20, "btrfs": 320 << 20}

// A rig is a directory in memory with loop devices and mount points.
type rig struct {
	dir     string
	mounter *mount.Mounter
	disks   *disk.Disks
}

// newRig returns nil but in a namespace of root, on a machine that can make the file
// systems.
func newRig(t *testing.T, fsTypes ...string) *rig {
	t.Helper()
	if !mounttest.RootNamespace(t) {
		return nil
	}
	for _, fsType := range fsTypes {
		testbed.RequirePrograms(t, fsType, "mkfs."+fsType)
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	r := rigIn(dir)
	require.NoError(t, os.Mkdir(r.target(), 0o755))
	t.Cleanup(func() { // or else the devices stay when a test fails
		for unix.Unmount(r.target(), unix.MNT_DETACH) == nil {
			continue
		}
		_ = r.mounter.Close()
	})
	return r
}

func rigIn(dir string) *rig {
	m := mount.New(mount.Config{StagingDir: dir + "/staging"})
	return &rig{dir, m, disk.New(disk.Config{Mounter: m})}
}

func (r *rig) target() string { return r.dir + "/target" }

func (r *rig) request(device, fsType string, options ...string) disk.MountRequest {
	return disk.MountRequest{Device: device, Target: r.target(), FSType: fsType, Options: options}
}

// mount must succeed, on a kernel that has the file system.
func (r *rig) mount(t *testing.T, device, fsType string, options ...string) {
	t.Helper()
	err := r.disks.FormatAndMount(t.Context(), r.request(device, fsType, options...))
	if err != nil && strings.Contains(err.Error(), unix.ENODEV.Error()) {
		mounttest.SkipWithout(t, fsType, err)
	}
	require.NoError(t, err)
}

func (r *rig) unmount(t *testing.T) {
	t.Helper()
	require.NoError(t, r.mounter.Unmount(t.Context(), r.target()))
}

// replacePrograms runs shell scripts in the place of programs, with their arguments; "$DEVICE" is
// the last of them.
func (r *rig) replacePrograms(scripts map[string]string) {
	r.disks = disk.New(disk.Config{Mounter: r.mounter, Programs: scriptedPrograms{disk.SystemPrograms(), scripts}})
}

type scriptedPrograms struct {
	disk.Programs
	scripts map[string]string
}

func (s scriptedPrograms) Run(ctx context.Context, c disk.Command) error {
	if script, ok := s.scripts[c.Name]; ok {
		script = "DEVICE=" + c.Args[len(c.Args)-1] + "; " + script
		c.Name, c.Args = "sh", append([]string{"-c", script, c.Name}, c.Args...)
	}
	return s.Programs.Run(ctx, c)
}

// A loopDisk is a loop device, and the file behind it.
type loopDisk struct{ device, image string }

func (r *rig) disk(t *testing.T, name string, size int64) loopDisk {
	t.Helper()
	return r.attach(t, name, size, loop.Config{})
}

// readOnlyDisk attaches an image that exists, to a device that cannot be written to.
func (r *rig) readOnlyDisk(t *testing.T, name string) loopDisk {
	t.Helper()
	return r.attach(t, name, 0, loop.Config{ReadOnly: true})
}

// attach attaches an image; size 0: an existing one.
func (r *rig) attach(t *testing.T, name string, size int64, config loop.Config) loopDisk {
	t.Helper()
	d := loopDisk{image: r.dir + "/" + name + ".image"}
	f, err := os.OpenFile(d.image, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	if size > 0 {
		require.NoError(t, f.Truncate(size))
	}
	config.File = f
	made, err := loop.Attach(context.Background(), config)
	if err != nil {
		mounttest.SkipWithout(t, "loop", err)
	}
	d.device = made.Path
	t.Cleanup(func() {
		err := loop.Detach(context.Background(), made)
		if !errors.Is(err, loop.ErrReplaced) { // a test has detached it, and another one uses its path
			require.NoError(t, err)
		}
	})
	testbed.DetachAtEnd(t, d.device)
	return d
}

func (d loopDisk) resize(t *testing.T, size int64) {
	t.Helper()
	require.NoError(t, os.Truncate(d.image, size))
	require.NoError(t, loop.Resize(context.Background(), loop.Device{Path: d.device}))
}

// erase makes the disk blank.
func (d loopDisk) erase(t *testing.T) {
	t.Helper()
	info, err := os.Stat(d.image)
	require.NoError(t, err)
	require.NoError(t, os.Truncate(d.image, 0))
	require.NoError(t, os.Truncate(d.image, info.Size()))
}

// sum is the hash of all bytes of the disk.
func (d loopDisk) sum(t *testing.T) [32]byte {
	t.Helper()
	f, err := os.Open(d.device)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	require.NoError(t, err)
	return [32]byte(h.Sum(nil))
}

// replaceNode makes a node of the device at a path.
func (d loopDisk) replaceNode(t *testing.T, at string) {
	t.Helper()
	var stat unix.Stat_t
	require.NoError(t, unix.Stat(d.device, &stat))
	_ = os.Remove(at + ".new")
	require.NoError(t, unix.Mknod(at+".new", unix.S_IFBLK|0o600, int(stat.Rdev)))
	require.NoError(t, os.Rename(at+".new", at))
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	require.NoError(t, err, string(out))
}
