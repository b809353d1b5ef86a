package local_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/api/resource"
)

// replaceNode replaces the node at a path by one of the disk.
func (d testDisk) replaceNode(t testing.TB, at string) {
	t.Helper()
	_ = os.Remove(at + ".new")
	require.NoError(t, unix.Mknod(at+".new", unix.S_IFBLK|0o600, int(numberOf(t, d))))
	require.NoError(t, os.Rename(at+".new", at))
}

// nodes is a rig with two disks and a node of the first of them, where nodes are of use.
func nodes(t *testing.T, size int64, fsTypes ...string) (r *rig, first, second testDisk, node string) {
	t.Helper()
	if r = newRig(t, fsTypes...); r == nil {
		return nil, testDisk{}, testDisk{}, ""
	}
	require.NoError(t, unix.Mount("", filepath.Dir(r.dir), "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	first, second = r.disk("first", size), r.disk("second", size)
	node = r.disks + "/node"
	first.replaceNode(t, node)
	return r, first, second, node
}

// TestNodeSwappedBeforeMkfs: a node that becomes another device's when that has been
// looked at does not lead mkfs to the other one.
func TestNodeSwappedBeforeMkfs(t *testing.T) {
	r, first, second, node := nodes(t, largeDisk, "ext4", "xfs", "btrfs")
	if r == nil {
		return
	}
	precious := second.sum(t)
	for _, test := range []struct{ program, fsType string }{
		{"mkfs.ext4", "ext4"}, {"mkfs.xfs", "xfs"}, {"mkfs.btrfs", "btrfs"},
	} {
		first.replaceNode(t, node)
		second.replaceNode(t, node+".other")
		r.replacePrograms(map[string]string{test.program: "mv -f " + node + ".other " + node + "; exec " + test.program + ` "$@"`})
		err := r.mountDevice(deviceSpec(node, test.fsType))
		require.Error(t, err, test.program)
		require.Equal(t, precious, second.sum(t), test.program)
		require.Empty(t, mountsBelow(t, r.mount, r.dir))
		want := volume.Uncertain
		// mkfs.btrfs resolves the path of each mounted block device: with one in the mount
		// table it refuses the open device, whose path has been removed.
		if test.fsType == "btrfs" && errors.As(err, new(*disk.ToolError)) {
			want = volume.Transient
		}
		require.Equal(t, want, volume.KindOf(err), "%s: %v", test.program, err)
		first.replaceNode(t, node)
		r.restart(local.Config{})
		s := deviceSpec(node, test.fsType)
		require.NoError(t, r.mountDevice(s), "it was this volume's to format")
		require.NoError(t, r.unmountDevice(s))
		require.NoError(t, r.plugin.Forget(t.Context(), "pv"))
		require.NoError(t, os.Truncate(first.image, 0))
		require.NoError(t, os.Truncate(first.image, largeDisk))
	}
}

// TestNodeSwappedBeforeFsck checks that fsck repairs the inspected device, not one that
// replaced its node.
func TestNodeSwappedBeforeFsck(t *testing.T) {
	r, first, second, node := nodes(t, smallDisk, "ext4")
	if r == nil {
		return
	}
	testbed.RequirePrograms(t, "ext4", "debugfs")
	for _, d := range []testDisk{first, second} {
		run(t, "mkfs.ext4", "-q", d.device)
		run(t, "debugfs", "-w", "-R", "set_super_value state 0", d.device) // fsck writes to it
	}
	unclean, precious := first.sum(t), second.sum(t)
	second.replaceNode(t, node+".other")
	r.replacePrograms(map[string]string{"fsck.ext4": "mv -f " + node + ".other " + node + `; exec fsck.ext4 "$@"`})
	require.ErrorIs(t, r.mountDevice(deviceSpec(node, "ext4")), local.ErrDeviceSwapped)
	require.NoFileExists(t, node+".other", "it has run")
	require.NotEqual(t, unclean, first.sum(t))
	require.Equal(t, precious, second.sum(t))
	require.Empty(t, mountsBelow(t, r.mount, r.dir))
}

// A swappingMounter replaces the device at the node before each mount.
type swappingMounter struct {
	mount.Interface
	swap func()
}

func (s swappingMounter) Mount(ctx context.Context, req mount.Request) error {
	s.swap()
	return s.Interface.Mount(ctx, req)
}

// TestNodeSwappedBeforeMount checks that a mount of the other device is removed again.
func TestNodeSwappedBeforeMount(t *testing.T) {
	r, first, second, node := nodes(t, smallDisk, "ext4")
	if r == nil {
		return
	}
	run(t, "mkfs.ext4", "-q", second.device)
	r.restart(local.Config{Mounter: swappingMounter{r.mount, func() { second.replaceNode(t, node) }}})
	s := deviceSpec(node, "ext4")
	require.ErrorIs(t, r.mountDevice(s), local.ErrDeviceSwapped)
	require.Empty(t, mountsBelow(t, r.mount, r.dir))
	first.replaceNode(t, node)
	r.restart(local.Config{})
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
}

// TestNodeSwappedWhileMounted checks that a node which leads to another device by now is not
// taken for the mounted device, and that the file system of the other device does not grow.
func TestNodeSwappedWhileMounted(t *testing.T) {
	for _, fsType := range []string{"ext4", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			r, first, second, node := nodes(t, largeDisk, fsType)
			if r == nil {
				return
			}
			s := deviceSpec(node, fsType)
			r.mountFirst(s)
			run(t, "mkfs.ext4", "-q", "-F", second.device, "16M")
			precious := second.sum(t)
			second.replaceNode(t, node)
			require.ErrorIs(t, r.mountDevice(s), local.ErrDeviceSwapped)
			_, err := r.setUp(s, "1", volume.MounterArgs{})
			require.ErrorIs(t, err, local.ErrDeviceSwapped)
			req := volume.NodeResizeOptions{Spec: s, NewSize: *resource.NewQuantity(largeDisk, resource.BinarySI)}
			done, err := r.plugin.NodeExpand(t.Context(), req)
			require.ErrorIs(t, err, local.ErrDeviceSwapped)
			require.False(t, done)
			require.Equal(t, precious, second.sum(t))

			first.replaceNode(t, node+"-of-another-name") // the same device
			require.NoError(t, os.Rename(node+"-of-another-name", node))
			require.NoError(t, r.mountDevice(s))
			_, err = r.setUp(s, "1", volume.MounterArgs{})
			require.NoError(t, err)
			r.tearDown("1")
			require.NoError(t, r.unmountDevice(s))
		})
	}
}

// TestNodeSwappedBeforeResize: the program that grows a file system works on the device
// that is mounted.
func TestNodeSwappedBeforeResize(t *testing.T) {
	r, _, second, node := nodes(t, smallDisk, "ext4")
	if r == nil {
		return
	}
	s := deviceSpec(node, "ext4")
	require.NoError(t, r.mountDevice(s))
	run(t, "mkfs.ext4", "-q", "-F", second.device, "8M")
	precious := second.sum(t)
	second.replaceNode(t, node+".other")
	r.replacePrograms(map[string]string{"resize2fs": "mv -f " + node + ".other " + node + `; exec resize2fs "$@"`})
	_, err := r.plugin.NodeExpand(t.Context(), volume.NodeResizeOptions{Spec: s})
	t.Log(err) // it may not find out where the device is mounted
	require.NoFileExists(t, node+".other", "it has run")
	require.Equal(t, precious, second.sum(t))
	require.NoError(t, r.unmountDevice(s))
}

// TestFormatInterruptedBeforeMkfs checks that a disk does not belong to the volume if the
// process was killed before mkfs began: later content of the disk stays.
func TestFormatInterruptedBeforeMkfs(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk("disk", smallDisk)
	s := deviceSpec(r.link("disk", d), "ext4")
	require.NoError(t, r.mountDevice(s))
	require.NoError(t, r.unmountDevice(s))
	file := filepath.Join(filepath.Dir(filepath.Dir(r.shared(s))), "devices", "pv")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	text = []byte(strings.Replace(string(text), "mounted", "formatting", 1))
	require.NoError(t, os.WriteFile(file, text, 0o600))
	raw := []byte(strings.Repeat("records of a raw database ", smallDisk/26))
	require.NoError(t, os.WriteFile(d.device, raw, 0o600))
	precious := d.sum(t)
	var carries *local.ContentError
	require.ErrorAs(t, r.mountDevice(s), &carries)
	require.Equal(t, precious, d.sum(t))
}
