package disk_test

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/disk/disktest"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/diskprobe"
)

const (
	vdb  = "/dev/vdb"
	size = 1 << 30
)

// A node is a machine with the disk vdb, and a mounter.
type node struct {
	*disktest.Machine
	mounter *mounttest.Fake
	disks   *disk.Disks
	target  string
}

func newNode(t *testing.T) *node {
	t.Helper()
	target, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	n := &node{Machine: disktest.NewMachine(), mounter: mounttest.NewFake(mount.Config{}), target: target}
	n.AddDisk(vdb, size)
	n.disks = n.Disks(n.mounter)
	return n
}

func (n *node) request(fsType string, options ...string) disk.MountRequest {
	return disk.MountRequest{Device: vdb, Target: n.target, FSType: fsType, Options: options}
}

func (n *node) mounts(t *testing.T) (below []mount.Info) {
	t.Helper()
	all, err := n.mounter.List(t.Context())
	require.NoError(t, err)
	for _, m := range all {
		if m.Mountpoint == n.target {
			below = append(below, m)
		}
	}
	return below
}

func (n *node) content(t *testing.T) disk.Content {
	t.Helper()
	c, err := n.disks.Probe(t.Context(), vdb)
	require.NoError(t, err)
	return c
}

// TestFormatAndMount: formatted once, checked later, never mounted twice.
func TestFormatAndMount(t *testing.T) {
	for _, fsType := range disk.Types() {
		t.Run(fsType, func(t *testing.T) {
			n := newNode(t)
			require.True(t, n.content(t).IsBlank())
			for range 2 {
				require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request(fsType, "noatime")))
			}
			require.Len(t, n.mounts(t), 1)
			require.Equal(t, fsType, n.mounts(t)[0].FSType)
			c := n.content(t)
			there, ok := c.FileSystem()
			require.True(t, ok)
			require.Equal(t, fsType, there.Name)
			require.Len(t, n.Commands(), 1)
			require.ErrorIs(t, n.disks.FormatAndMount(t.Context(), n.request(fsType, "noexec")), mount.ErrMounted)
			require.NoError(t, n.mounter.Unmount(t.Context(), n.target))
			require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request("")))
			require.Equal(t, c.Found, n.content(t).Found, "it is not formatted again")
			if strings.HasPrefix(fsType, "ext") {
				require.Contains(t, n.Commands()[1], "fsck."+fsType+" -a ")
			} else {
				require.Len(t, n.Commands(), 1)
			}
		})
	}
}

// TestContentStays: a device with other content is not written to.
func TestContentStays(t *testing.T) {
	for name, data := range map[string]struct {
		at      int64
		content string
	}{
		"lvm2": {512, "LABELONE"}, "luks": {0, "LUKS\xba\xbe"}, "gpt": {size - 512, "EFI PART"}, "swap": {4086, "SWAPSPACE2"},
		"data": {1<<20 + 7, "x"}, "ntfs": {3, "NTFS    "}, "linux_raid": {4096, "\xfc\x4e\x2b\xa9"},
	} {
		n := newNode(t)
		n.Write(vdb, data.at, data.content)
		before := n.content(t)
		_, checked := n.disks.Check(t.Context(), disk.CheckRequest{Device: vdb, Repair: true})
		_, grown := n.disks.Grow(t.Context(), disk.GrowRequest{Device: vdb})
		for _, err := range []error{
			n.disks.FormatAndMount(t.Context(), n.request("")),
			n.disks.Format(t.Context(), disk.FormatRequest{Device: vdb}), checked, grown,
		} {
			var carries *disk.ContentError
			require.ErrorAs(t, err, &carries, name)
			require.Equal(t, name, carries.Found[0].Name)
			require.Contains(t, err.Error(), name)
			require.NotErrorIs(t, err, mount.ErrUncertain)
		}
		require.Equal(t, before, n.content(t))
		require.Empty(t, n.Commands())
		require.Empty(t, n.mounts(t))
	}
	n := newNode(t)
	require.NoError(t, n.disks.Format(t.Context(), disk.FormatRequest{Device: vdb, FSType: "xfs"}))
	require.ErrorAs(t, n.disks.Format(t.Context(), disk.FormatRequest{Device: vdb, FSType: "xfs"}), new(*disk.ContentError))
	require.ErrorAs(t, n.disks.FormatAndMount(t.Context(), n.request("ext4")), new(*disk.ContentError))
}

// TestUnusableDisk: an unusable disk is refused with a typed error, and stays blank.
func TestUnusableDisk(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(n *node)
		options []string
		want    error
	}{
		"in use":             {func(n *node) { n.SetInUse(vdb, true) }, nil, disk.ErrInUse},
		"read-only device":   {func(n *node) { n.SetReadOnly(vdb, true) }, nil, disk.ErrNotFormatted},
		"read-only mount":    {func(*node) {}, []string{"ro"}, disk.ErrNotFormatted},
		"no mkfs":            {func(n *node) { n.Uninstall("mkfs.xfs") }, nil, disk.ErrToolMissing},
		"too small":          {func(n *node) { n.Resize(vdb, 1<<20) }, nil, disk.ErrTooSmall},
		"no size":            {func(n *node) { n.Resize(vdb, 0) }, nil, disk.ErrNoMedium},
		"gone":               {func(n *node) { n.RemoveDisk(vdb) }, nil, os.ErrNotExist},
		"options contradict": {func(*node) {}, []string{"ro", "rw"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			test.prepare(n)
			for range 2 {
				err := n.disks.FormatAndMount(t.Context(), n.request("xfs", test.options...))
				require.Error(t, err)
				require.NotErrorIs(t, err, mount.ErrUncertain)
				if test.want != nil {
					require.ErrorIs(t, err, test.want)
					require.ErrorAs(t, err, new(*disk.Error))
				}
			}
			require.Empty(t, n.mounts(t))
			n.SetInUse(vdb, false)
			n.SetReadOnly(vdb, false)
			if c, err := n.disks.Probe(t.Context(), vdb); err == nil {
				require.True(t, c.IsBlank())
			}
		})
	}
}

// TestTargetIsCheckedFirst: a device is not formatted for a target that does not exist.
func TestTargetIsCheckedFirst(t *testing.T) {
	n := newNode(t)
	r := n.request("xfs")
	for target, want := range map[string]error{r.Target + "/missing": os.ErrNotExist, r.Target + "/../x": nil} {
		r.Target = target
		err := n.disks.FormatAndMount(t.Context(), r)
		require.Error(t, err)
		if want != nil {
			require.ErrorIs(t, err, want)
		}
		require.NotErrorIs(t, err, mount.ErrUncertain)
		require.True(t, n.content(t).IsBlank(), target)
	}
}

// TestUncertainText: an unknown outcome is in the kind of the error, not in its text.
func TestUncertainText(t *testing.T) {
	n := newNode(t)
	n.Fail("xfs_growfs", 1)
	r := n.request("xfs")
	require.NoError(t, n.disks.FormatAndMount(t.Context(), r))
	n.Resize(vdb, 2<<30)
	r.Grow = true
	err := n.disks.FormatAndMount(t.Context(), r)
	require.ErrorIs(t, err, mount.ErrUncertain)
	require.ErrorAs(t, err, new(*disk.ToolError))
	require.Equal(t, "mount "+vdb+": xfs_growfs: exit status 1", err.Error())
}

// TestFormatReverts: after a mkfs that wrote nothing the device has no marker: later
// data on it does not count as remains.
func TestFormatReverts(t *testing.T) {
	n := newNode(t)
	n.Fail("mkfs.ext4", 1)
	err := n.disks.FormatAndMount(t.Context(), n.request("ext4"))
	var tool *disk.ToolError
	require.ErrorAs(t, err, &tool)
	require.Equal(t, 1, tool.ExitCode)
	require.NotErrorIs(t, err, mount.ErrUncertain)
	require.NotErrorIs(t, err, disk.ErrTooSmall)
	require.True(t, n.content(t).IsBlank())
	n.Write(vdb, 1<<20, "precious")
	n.Fail("mkfs.ext4", 0)
	require.ErrorAs(t, n.disks.FormatAndMount(t.Context(), n.request("ext4")), new(*disk.ContentError))
}

// TestInterruptedFormat: a mkfs that hangs is killed at the end of the context; the same
// call formats again, unless another program has used the device since.
func TestInterruptedFormat(t *testing.T) {
	for name, test := range map[string]struct {
		then func(n *node)
		want func(t *testing.T, n *node, err error)
	}{
		"again":                 {func(*node) {}, func(t *testing.T, _ *node, err error) { require.NoError(t, err) }},
		"garbage":               {func(n *node) { n.Write(vdb, 8<<10, "garbage of mkfs") }, func(t *testing.T, _ *node, err error) { require.NoError(t, err) }},
		"a member":              {func(n *node) { n.Write(vdb, 4096, "\xfc\x4e\x2b\xa9") }, requireKept},
		"the marker is written": {func(n *node) { n.Write(vdb, 1, "x"); n.Write(vdb, 8<<10, "data") }, requireKept},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.Hang("mkfs.ext4", true)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				defer cancel()
				for len(n.Commands()) == 0 {
					time.Sleep(time.Millisecond)
				}
				n.Write(vdb, 16<<10, "of mkfs")
			}()
			err := n.disks.FormatAndMount(ctx, n.request("ext4"))
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, n.mounts(t))
			n.Hang("mkfs.ext4", false)
			require.NotEmpty(t, n.content(t).Interrupted())
			require.ErrorIs(t, err, mount.ErrUncertain)
			test.then(n)
			test.want(t, n, n.disks.FormatAndMount(t.Context(), n.request("ext4")))
		})
	}
}

func requireKept(t *testing.T, n *node, err error) {
	t.Helper()
	require.ErrorAs(t, err, new(*disk.ContentError))
	require.Len(t, n.Commands(), 1)
	require.Empty(t, n.mounts(t))
}

// TestFsck checks the outcome for each exit status of fsck.
func TestFsck(t *testing.T) {
	for exit, want := range map[int]error{0: nil, 1: nil, 2: nil, 3: nil, 4: disk.ErrDamaged, 5: disk.ErrDamaged, 12: disk.ErrDamaged, 8: nil, 32: nil} {
		n := newNode(t)
		require.NoError(t, n.disks.Format(t.Context(), disk.FormatRequest{Device: vdb}))
		n.Fail("fsck.ext4", exit)
		result, err := n.disks.Check(t.Context(), disk.CheckRequest{Device: vdb, Repair: true})
		require.Equal(t, exit <= 3, err == nil, "%d: %v", exit, err)
		require.Equal(t, exit > 0 && exit <= 3, result.Repaired)
		_, err = n.disks.Check(t.Context(), disk.CheckRequest{Device: vdb})
		require.Equal(t, exit == 0, err == nil, "nothing is repaired")
		require.Equal(t, exit&4 != 0, errors.Is(err, disk.ErrDamaged))
		err = n.disks.FormatAndMount(t.Context(), n.request("ext4"))
		require.ErrorIs(t, err, want, "%d", exit)
		require.Equal(t, want == nil, len(n.mounts(t)) == 1)
	}
	n := newNode(t)
	require.NoError(t, n.disks.Format(t.Context(), disk.FormatRequest{Device: vdb}))
	n.Uninstall("fsck.ext4")
	_, err := n.disks.Check(t.Context(), disk.CheckRequest{Device: vdb, Repair: true})
	require.ErrorIs(t, err, disk.ErrToolMissing)
	require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request("ext4")), "it is not needed for a mount")
	_, err = n.disks.Check(t.Context(), disk.CheckRequest{Device: vdb})
	require.ErrorIs(t, err, disk.ErrInUse)
	require.NoError(t, n.mounter.Unmount(t.Context(), n.target))
	_, err = n.disks.Check(t.Context(), disk.CheckRequest{Device: vdb})
	require.ErrorIs(t, err, disk.ErrToolMissing)
}

// TestFsckReadOnly checks that nothing is repaired for a read-only mount or on a read-only
// device.
func TestFsckReadOnly(t *testing.T) {
	n := newNode(t)
	require.NoError(t, n.disks.Format(t.Context(), disk.FormatRequest{Device: vdb}))
	require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request("ext4", "ro")))
	require.NoError(t, n.mounter.Unmount(t.Context(), n.target))
	n.SetReadOnly(vdb, true)
	require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request("ext4")))
	require.NotZero(t, n.mounts(t)[0].Flags&mount.ReadOnly, "so is its mount")
	require.Len(t, n.Commands(), 1)
	_, err := n.disks.Check(t.Context(), disk.CheckRequest{Device: vdb, Repair: true})
	require.ErrorIs(t, err, disk.ErrReadOnly)
	n.SetReadOnly(vdb, false) // the mount still is
	_, err = n.disks.Grow(t.Context(), disk.GrowRequest{Target: n.target})
	require.ErrorIs(t, err, disk.ErrReadOnly)
}

// TestGrow: mounted, not mounted, and after a mount.
func TestGrow(t *testing.T) {
	for _, fsType := range disk.Types() {
		t.Run(fsType, func(t *testing.T) {
			n := newNode(t)
			online, offline := fsType != "ext2", strings.HasPrefix(fsType, "ext")
			require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request(fsType)))
			mounted := disk.GrowRequest{Target: n.target}
			needed, err := n.disks.NeedsGrow(t.Context(), mounted)
			require.NoError(t, err)
			require.False(t, needed)
			n.Resize(vdb, 2*size)
			needed, err = n.disks.NeedsGrow(t.Context(), mounted)
			require.NoError(t, err)
			require.True(t, needed)
			for range 2 {
				sizes, err := n.disks.Grow(t.Context(), mounted)
				require.Equal(t, !online, errors.Is(err, errors.ErrUnsupported), "%v", err)
				if online {
					require.NoError(t, err)
					require.Equal(t, disk.Sizes{Device: 2 * size, FileSystem: 2 * size}, sizes)
				}
			}
			require.NoError(t, n.mounter.Unmount(t.Context(), n.target))
			_, err = n.disks.Grow(t.Context(), mounted)
			require.ErrorIs(t, err, mount.ErrNotMounted)

			n.Resize(vdb, 3*size)
			sizes, err := n.disks.Grow(t.Context(), disk.GrowRequest{Device: vdb})
			require.Equal(t, !offline, errors.Is(err, errors.ErrUnsupported), "%v", err)
			if offline {
				require.Equal(t, disk.Sizes{Device: 3 * size, FileSystem: 3 * size}, sizes)
			}
			n.Resize(vdb, 4*size)
			if online {
				r := n.request(fsType)
				r.Grow = true
				require.NoError(t, n.disks.FormatAndMount(t.Context(), r))
				there, _ := n.content(t).FileSystem()
				require.EqualValues(t, 4*size, there.Size)
			}
		})
	}
}

// TestGrowOtherDevice: the mount must be of the device.
func TestGrowOtherDevice(t *testing.T) {
	n := newNode(t)
	require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request("ext4")))
	n.AddDisk("/dev/vdc", size)
	_, err := n.disks.Grow(t.Context(), disk.GrowRequest{Device: "/dev/vdc", Target: n.target})
	require.ErrorIs(t, err, disk.ErrSwapped)
	r := n.request("ext4")
	r.Device = "/dev/vdc"
	require.ErrorIs(t, n.disks.FormatAndMount(t.Context(), r), mount.ErrMounted)
	require.Len(t, n.Commands(), 1)
}

// TestFormatTouchesNothing: a format that cannot succeed does not write to the device, and
// does not reach the caller's step.
func TestFormatTouchesNothing(t *testing.T) {
	for name, prepare := range map[string]func(n *node){
		"read-only": func(n *node) { n.SetReadOnly(vdb, true) },
		"no mkfs":   func(n *node) { n.Uninstall("mkfs.ext4") },
		"content":   func(n *node) { n.Write(vdb, 5, "x") },
	} {
		n := newNode(t)
		prepare(n)
		before := n.content(t)
		err := n.disks.Use(t.Context(), vdb, func(ctx context.Context, d *disk.Device) error {
			return d.Format(ctx, disk.Format{Begin: func() error { t.Error(name, "has begun"); return nil }})
		})
		require.Error(t, err, name)
		require.NotErrorIs(t, err, mount.ErrUncertain)
		require.Equal(t, name == "read-only", errors.Is(err, disk.ErrReadOnly))
		require.Equal(t, before, n.content(t))
	}
}

// idlePrograms succeed without effect.
type idlePrograms struct{ disk.Programs }

// Run implements disk.Programs.
func (idlePrograms) Run(context.Context, disk.Command) error { return nil }

// TestMkfsResultIsVerified checks that a format fails if the device carries no file system
// afterwards, although mkfs succeeded.
func TestMkfsResultIsVerified(t *testing.T) {
	n := newNode(t)
	lied := disk.New(disk.Config{Mounter: n.mounter, Devices: n.Devices(), Programs: idlePrograms{n.Programs()}})
	require.ErrorContains(t, lied.FormatAndMount(t.Context(), n.request("ext4")), "does not carry")
	require.Empty(t, n.mounts(t))
	require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request("ext4")))
}

// TestInterruptedWipe: remains that are erased in part are still remains.
func TestInterruptedWipe(t *testing.T) {
	n := newNode(t)
	const superblock = 64 << 10
	id := strings.ReplaceAll(disk.NewUUID(), "-", "")
	raw, err := hex.DecodeString(id)
	require.NoError(t, err)
	n.Write(vdb, superblock+32, string(raw))
	n.Write(vdb, superblock+64, "!BHRfS_M") // of a mkfs.btrfs at work
	require.NotEmpty(t, n.content(t).Interrupted())
	broken := disk.New(disk.Config{Mounter: n.mounter, Devices: tornWriteDevices{n.Devices(), superblock + 40}, Programs: n.Programs()})
	err = broken.FormatAndMount(t.Context(), n.request("btrfs"))
	require.ErrorIs(t, err, syscall.EIO)
	require.ErrorIs(t, err, mount.ErrUncertain)
	require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request("btrfs")))
}

// tornWriteDevices fail in the middle of a long write, at an offset.
type tornWriteDevices struct {
	disk.Devices
	at int64
}

// Open implements disk.Devices.
func (d tornWriteDevices) Open(path string) (disk.Handle, error) {
	h, err := d.Devices.Open(path)
	return tornWriteHandle{h, d.at}, err
}

type tornWriteHandle struct {
	disk.Handle
	at int64
}

// Write implements disk.Handle.
func (h tornWriteHandle) Write(write func(io.WriterAt) error) error {
	return h.Handle.Write(func(w io.WriterAt) error { return write(tornWriter{w, h.at}) })
}

type tornWriter struct {
	io.WriterAt
	at int64
}

// WriteAt implements io.WriterAt.
func (w tornWriter) WriteAt(data []byte, at int64) (int, error) {
	if at < w.at && at+int64(len(data)) > w.at {
		n, _ := w.WriterAt.WriteAt(data[:w.at-at], at)
		return n, syscall.EIO
	}
	return w.WriterAt.WriteAt(data, at)
}

// TestBeginRunsBeforeMarker: the caller's step runs before the marker is written, and its error
// leaves the device blank.
func TestBeginRunsBeforeMarker(t *testing.T) {
	n := newNode(t)
	refused := errors.New("refused")
	err := n.disks.Use(t.Context(), vdb, func(ctx context.Context, d *disk.Device) error {
		return d.Format(ctx, disk.Format{Begin: func() error { return refused }})
	})
	require.ErrorIs(t, err, refused)
	require.NotErrorIs(t, err, mount.ErrUncertain)
	require.True(t, n.content(t).IsBlank())
	// The path may lead to another disk since the probe.
	err = n.disks.Use(t.Context(), vdb, func(ctx context.Context, d *disk.Device) error {
		return d.Format(ctx, disk.Format{Begin: func() error { return nil }})
	})
	require.NoError(t, err)
}

// TestInput: a wrong request is an *InputError before a device is opened, with a short text.
func TestInput(t *testing.T) {
	n := newNode(t)
	long := "/" + strings.Repeat("x", 100_000)
	for name, err := range map[string]error{
		"no device":    n.disks.FormatAndMount(t.Context(), disk.MountRequest{Target: n.target}),
		"relative":     n.disks.Format(t.Context(), disk.FormatRequest{Device: "dev/vdb"}),
		"NUL":          n.disks.Format(t.Context(), disk.FormatRequest{Device: "/dev/vdb\x00"}),
		"no target":    n.disks.FormatAndMount(t.Context(), disk.MountRequest{Device: vdb}),
		"type":         n.disks.FormatAndMount(t.Context(), n.request("ntfs")),
		"type to make": n.disks.Format(t.Context(), disk.FormatRequest{Device: vdb, FSType: "../ext4"}),
		"argument":     n.disks.Format(t.Context(), disk.FormatRequest{Device: vdb, Options: []string{"\x00"}}),
		"no work":      n.disks.Use(t.Context(), vdb, nil),
		"long":         n.disks.Format(t.Context(), disk.FormatRequest{Device: long[1:]}),
		"UUID": n.disks.Use(t.Context(), vdb, func(ctx context.Context, d *disk.Device) error {
			return d.Format(ctx, disk.Format{UUID: "-"})
		}),
	} {
		require.ErrorAs(t, err, new(*disk.InputError), name)
		require.True(t, strings.HasPrefix(err.Error(), "disk: "), "%v", err)
		require.Less(t, len(err.Error()), 3000)
	}
	require.Error(t, disk.New(disk.Config{}).FormatAndMount(t.Context(), n.request("")), "no mounter")
	require.Empty(t, n.Commands())
	require.True(t, n.content(t).IsBlank())
}

// hungDevices do not answer until release is closed.
type hungDevices struct {
	disk.Devices
	calls   atomic.Int32
	release chan struct{}
	opens   bool // it can be opened, and not be read
}

func (h *hungDevices) wait() {
	h.calls.Add(1)
	<-h.release
}

func (h *hungDevices) Open(string) (disk.Handle, error) {
	if !h.opens {
		h.wait()
		return nil, syscall.EIO
	}
	return hungHandle{h}, nil
}

func (h *hungDevices) Identify(string) (disk.Info, error) {
	h.wait()
	return disk.Info{}, syscall.EIO
}

type hungHandle struct{ *hungDevices }

func (h hungHandle) Info() disk.Info { return disk.Info{Path: vdb, Size: size} }
func (h hungHandle) File() *os.File  { return nil }
func (h hungHandle) Close() error    { return nil }
func (h hungHandle) ReadAt([]byte, int64) (int, error) {
	h.wait()
	return 0, syscall.EIO
}

func (h hungHandle) InUse(context.Context, string) (bool, error) { return false, nil }
func (h hungHandle) Write(func(io.WriterAt) error) error {
	h.wait()
	return syscall.EIO
}

// TestHungDevice: each call returns within 100 ms of the end of its context, and however
// many calls there were, one waits for the device.
func TestHungDevice(t *testing.T) {
	for _, opens := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := &hungDevices{release: make(chan struct{}), opens: opens}
			d := disk.New(disk.Config{Devices: h, Mounter: mounttest.NewFake(mount.Config{})})
			for range 3 {
				for name, call := range map[string]func(ctx context.Context) error{
					"mount": func(ctx context.Context) error {
						return d.FormatAndMount(ctx, disk.MountRequest{Device: vdb, Target: "/x"})
					},
					"format": func(ctx context.Context) error { return d.Format(ctx, disk.FormatRequest{Device: vdb}) },
					"probe":  func(ctx context.Context) error { _, err := d.Probe(ctx, vdb); return err },
					"check":  func(ctx context.Context) error { _, err := d.Check(ctx, disk.CheckRequest{Device: vdb}); return err },
					"grow":   func(ctx context.Context) error { _, err := d.Grow(ctx, disk.GrowRequest{Device: vdb}); return err },
					"needs":  func(ctx context.Context) error { _, err := d.NeedsGrow(ctx, disk.GrowRequest{Device: vdb}); return err },
				} {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					begin := time.Now()
					err := call(ctx)
					require.ErrorIs(t, err, context.DeadlineExceeded, name)
					require.NotErrorIs(t, err, mount.ErrUncertain, "nothing was begun")
					require.LessOrEqual(t, time.Since(begin), time.Second+100*time.Millisecond, name)
					cancel()
				}
			}
			require.EqualValues(t, 1, h.calls.Load())
			close(h.release)
			synctest.Wait()
		})
	}
	synctest.Test(t, func(t *testing.T) {
		h := &hungDevices{release: make(chan struct{})}
		d := disk.New(disk.Config{Devices: h})
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := d.Identify(ctx, vdb)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		require.EqualValues(t, 1, h.calls.Load())
		close(h.release)
		synctest.Wait()
	})
}

// TestLateOpen: a device that opens after the end of the context is not worked on.
func TestLateOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hungDevices{release: make(chan struct{})}
		d := disk.New(disk.Config{Devices: lateDevices{h}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := d.Use(ctx, vdb, func(context.Context, *disk.Device) error { t.Error("too late"); return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		close(h.release)
		synctest.Wait()
	})
}

// lateDevices open when they are released.
type lateDevices struct{ *hungDevices }

// Open implements disk.Devices.
func (l lateDevices) Open(string) (disk.Handle, error) {
	l.wait()
	return hungHandle(l), nil
}

// TestHungProgram: a mkfs that cannot be killed, because its device hangs, is left behind;
// the device stays claimed until it ends.
func TestHungProgram(t *testing.T) {
	n := newNode(t)
	synctest.Test(t, func(t *testing.T) {
		stuck := &unkillablePrograms{Programs: disk.SystemPrograms(), release: make(chan struct{})}
		d := disk.New(disk.Config{Devices: n.Devices(), Programs: stuck, Mounter: n.mounter})
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			begin := time.Now()
			err := d.FormatAndMount(ctx, n.request("ext4"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, i == 0, errors.Is(err, mount.ErrUncertain), "the others did not begin")
			require.LessOrEqual(t, time.Since(begin), time.Second+100*time.Millisecond)
			cancel()
		}
		require.EqualValues(t, 1, stuck.runs.Load())
		close(stuck.release)
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) { // the caller's context does not end
		stuck := &unkillablePrograms{release: make(chan struct{})}
		d := disk.New(disk.Config{Devices: n.Devices(), Programs: stuck})
		go func() { time.Sleep(time.Hour); close(stuck.release) }()
		begin := time.Now()
		err := d.Use(context.Background(), vdb, func(ctx context.Context, d *disk.Device) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			err := d.Format(ctx, disk.Format{Replace: contentIn(t, ctx, d).Interrupted()})
			require.LessOrEqual(t, time.Since(begin), time.Second+100*time.Millisecond)
			return err
		})
		require.ErrorIs(t, err, mount.ErrUncertain)
		require.GreaterOrEqual(t, time.Since(begin), time.Hour, "the device is in use until mkfs ends")
	})
	require.NoError(t, n.disks.FormatAndMount(t.Context(), n.request("ext4")))
}

// TestWorkAfterChange: if work goes on for longer than Use after its calls of the device have ended, the error
// of Use is uncertain if one of them has changed the device, and certain if none may have.
func TestWorkAfterChange(t *testing.T) {
	for name, test := range map[string]struct {
		call      func(ctx context.Context, d *disk.Device) error
		uncertain bool
	}{
		"format": {func(ctx context.Context, d *disk.Device) error { return d.Format(ctx, disk.Format{}) }, true},
		"probe":  {func(ctx context.Context, d *disk.Device) error { _, err := d.Probe(ctx); return err }, false},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := n.disks.Use(ctx, vdb, func(ctx context.Context, d *disk.Device) error {
					err := test.call(ctx, d)
					time.Sleep(time.Minute)
					return err
				})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, test.uncertain, errors.Is(err, mount.ErrUncertain), "%v", err)
				time.Sleep(time.Hour)
			})
		})
	}
}

func contentIn(t *testing.T, ctx context.Context, d *disk.Device) disk.Content {
	t.Helper()
	c, err := d.Probe(ctx)
	require.NoError(t, err)
	return c
}

// unkillablePrograms run until release is closed.
type unkillablePrograms struct {
	disk.Programs
	release chan struct{}
	runs    atomic.Int32
}

func (u *unkillablePrograms) LookPath(string) error { return nil }

func (u *unkillablePrograms) Run(context.Context, disk.Command) error {
	u.runs.Add(1)
	<-u.release
	return &disk.ToolError{Tool: "mkfs.ext4", ExitCode: -1, Err: syscall.EIO}
}

// TestProbeBlank: Probe returns the facts of a blank disk, and no content.
func TestProbeBlank(t *testing.T) {
	c := newNode(t).content(t)
	require.Equal(t, []diskprobe.Found(nil), c.Found)
	require.EqualValues(t, size, c.Size)
	require.Equal(t, vdb, c.Path)
}
