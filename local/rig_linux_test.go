package local_test

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Of mkfs.xfs and mkfs.btrfs each has a size below which it refuses to work.
const (
	smallDisk = 16 << 20
	largeDisk = 320 << 20
)

var diskFor = map[string]int64{"ext4": smallDisk, "xfs": largeDisk, "btrfs": largeDisk}

// A rig is a node with disks: loop devices, and links to them.
type rig struct {
	*node
	t     testing.TB
	dir   string
	links string
	mount mount.Interface
}

// newRig returns nil but in a namespace of root, on a machine that can make the
// file systems.
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
	// In memory: a disk's syncing takes the time of all that is on it.
	m := mount.New(mount.Config{})
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "tmpfs", Target: dir, FSType: "tmpfs"}))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	require.NoError(t, os.Mkdir(dir+"/node", 0o755))
	return rigIn(t, dir+"/node", local.Config{})
}

// rigIn is the rig in dir.
func rigIn(t testing.TB, dir string, config local.Config) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir, links: dir + "/links"}
	r.mount = mount.New(mount.Config{StagingDir: dir + "/staging"})
	r.restart(config)
	t.Cleanup(r.takeDownAll)
	return r
}

// restart is a new process on the node.
func (r *rig) restart(config local.Config) {
	r.t.Helper()
	if config.Mounter == nil {
		config.Mounter = r.mount
	}
	r.node = diskNode(r.t, r.dir, config)
}

// diskNode is the node that lives in dir, also when another process had it before.
func diskNode(t require.TestingT, dir string, config local.Config) *node {
	n := &node{disks: dir + "/disks"}
	for _, d := range []string{"/links", "/disks/disk", "/root"} {
		require.NoError(t, os.MkdirAll(dir+d, 0o755))
	}
	var err error
	n.host, err = volume.NewHost(context.Background(), dir+"/root")
	require.NoError(t, err)
	config.Roots, config.DeviceLinks = []string{n.disks}, []string{dir + "/links"}
	n.plugin = local.New(config)
	_, err = volume.NewVolumePluginMgr(context.Background(), n.host, n.plugin)
	require.NoError(t, err)
	return n
}

// takeDownAll unmounts and detaches all volumes: after a failed test their devices would stay.
func (r *rig) takeDownAll() {
	for range 100 {
		mounts := mountsBelow(r.t, r.mount, r.dir)
		if len(mounts) == 0 {
			return
		}
		_ = unix.Unmount(mounts[len(mounts)-1].Mountpoint, unix.MNT_DETACH)
	}
}

// A testDisk is a loop device, and the file behind it.
type testDisk struct{ device, image string }

func (r *rig) disk(name string, size int64) testDisk {
	r.t.Helper()
	return r.attach(name, size, loop.Config{})
}

// readOnlyDisk attaches an image that exists, to a device that cannot be written to.
func (r *rig) readOnlyDisk(name string) testDisk {
	r.t.Helper()
	return r.attach(name, 0, loop.Config{ReadOnly: true})
}

// attach attaches an image; size 0: an existing one.
func (r *rig) attach(name string, size int64, config loop.Config) testDisk {
	r.t.Helper()
	d := testDisk{image: r.dir + "/" + name + ".image"}
	f, err := os.OpenFile(d.image, os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(r.t, err)
	defer func() { _ = f.Close() }()
	if size > 0 {
		require.NoError(r.t, f.Truncate(size))
	}
	config.File = f
	made, err := loop.Attach(context.Background(), config)
	if err != nil {
		mounttest.SkipWithout(r.t, "loop", err)
	}
	d.device = made.Path
	number := numberOf(r.t, d)
	r.t.Cleanup(func() {
		all, err := loop.List(context.Background())
		require.NoError(r.t, err)
		for _, held := range all {
			if status, err := loop.Status(context.Background(), held.Path); err == nil && status.BackingDevice == number {
				require.NoError(r.t, loop.Detach(context.Background(), status))
			}
		}
		require.NoError(r.t, loop.Detach(context.Background(), made))
	})
	testbed.DetachAtEnd(r.t, d.device)
	return d
}

// link makes a volume's link to a disk, in the place of an earlier one.
func (r *rig) link(name string, to testDisk) string {
	r.t.Helper()
	at := filepath.Join(r.links, name)
	_ = os.Remove(at)
	require.NoError(r.t, os.Symlink(to.device, at))
	return at
}

// sum returns the checksum of a disk.
func (d testDisk) sum(t testing.TB) [32]byte {
	t.Helper()
	f, err := os.Open(d.device)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, f)
	require.NoError(t, err)
	return [32]byte(h.Sum(nil))
}

// deviceSpec is a volume on a device.
func deviceSpec(path, fsType string, options ...string) *volume.Spec {
	s := spec(path, options...)
	s.PersistentVolume.UID = "uid-of-pv"
	if fsType != "" {
		s.PersistentVolume.Spec.Local.FSType = &fsType
	}
	return s
}

func blockSpec(path string, options ...string) *volume.Spec {
	s := deviceSpec(path, "", options...)
	mode := v1.PersistentVolumeBlock
	s.PersistentVolume.Spec.VolumeMode = &mode
	return s
}

func (r *rig) mountDevice(s *volume.Spec) error {
	r.t.Helper()
	m, err := r.plugin.NewDeviceMounter()
	require.NoError(r.t, err)
	return m.MountDevice(r.t.Context(), s, r.shared(s), volume.DeviceMounterArgs{})
}

// mountFirst must succeed, on a kernel that has the file system.
func (r *rig) mountFirst(s *volume.Spec) {
	r.t.Helper()
	err := r.mountDevice(s)
	if err != nil && strings.Contains(err.Error(), unix.ENODEV.Error()) {
		mounttest.SkipWithout(r.t, *s.PersistentVolume.Spec.Local.FSType, err)
	}
	require.NoError(r.t, err)
}

// shared is where the device is mounted once.
func (r *rig) shared(s *volume.Spec) string {
	r.t.Helper()
	m, err := r.plugin.NewDeviceMounter()
	require.NoError(r.t, err)
	at, err := m.GetDeviceMountPath(s)
	require.NoError(r.t, err)
	return at
}

func (r *rig) unmountDevice(s *volume.Spec) error {
	r.t.Helper()
	u, err := r.plugin.NewDeviceUnmounter()
	require.NoError(r.t, err)
	return u.UnmountDevice(r.t.Context(), r.shared(s))
}

func (r *rig) setUp(s *volume.Spec, uid types.UID, args volume.MounterArgs) (string, error) {
	r.t.Helper()
	m := r.mounter(r.t, s, uid)
	return m.GetPath(), m.SetUp(r.t.Context(), args)
}

func (r *rig) tearDown(uid types.UID) {
	r.t.Helper()
	require.NoError(r.t, r.unmounter(r.t, uid).TearDown(r.t.Context()))
}

const (
	longWait = time.Minute
	tick     = 10 * time.Millisecond
)

var noConfig mount.Config

func podUID(s string) types.UID { return types.UID(s) }
