package disk_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/loop"
	"golang.org/x/sys/unix"
)

func onEachType(t *testing.T, test func(t *testing.T, r *rig, fsType string)) {
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(fsType, func(t *testing.T) {
			if r := newRig(t, fsType); r != nil {
				test(t, r, fsType)
			}
		})
	}
}

// TestLifecycle: formatted, written to, grown, unmounted, checked and mounted again.
func TestLifecycle(t *testing.T) {
	onEachType(t, func(t *testing.T, r *rig, fsType string) {
		d := r.disk(t, "disk", sizeFor[fsType])
		require.NoError(t, os.Symlink(d.device, r.dir+"/by-id"))
		r.mount(t, r.dir+"/by-id", fsType, "noatime")
		r.mount(t, d.device, fsType, "noatime")
		require.NoError(t, os.WriteFile(r.target()+"/file", []byte("text"), 0o600))
		_, err := r.disks.Check(t.Context(), disk.CheckRequest{Device: d.device})
		require.ErrorIs(t, err, disk.ErrInUse)
		require.ErrorIs(t, r.disks.Format(t.Context(), disk.FormatRequest{Device: d.device}), disk.ErrInUse)
		elsewhere := r.request(d.device, fsType)
		elsewhere.Target = r.dir
		require.ErrorIs(t, r.disks.FormatAndMount(t.Context(), elsewhere), mount.ErrMounted)

		t.Run("Grow", func(t *testing.T) { testGrow(t, r, d, fsType) })
		r.unmount(t)
		result, err := r.disks.Check(t.Context(), disk.CheckRequest{Device: d.device, Repair: true})
		require.NoError(t, err)
		require.Equal(t, disk.CheckResult{FSType: fsType}, result)
		if fsType == "xfs" {
			testbed.RequirePrograms(t, fsType, "xfs_repair")
		}
		before := d.sum(t)
		_, err = r.disks.Check(t.Context(), disk.CheckRequest{Device: d.device})
		if fsType == "xfs" && errors.Is(err, disk.ErrDamaged) && isCleanWithoutPrefetch(d.device) {
			mounttest.SkipWithout(t, "xfs", err)
		}
		require.NoError(t, err)
		require.Equal(t, before, d.sum(t), "nothing is written")
		r.mount(t, d.device, "")
		text, err := os.ReadFile(r.target() + "/file")
		require.NoError(t, err)
		require.Equal(t, "text", string(text))
		r.unmount(t)
	})
}

// isCleanWithoutPrefetch: in User-Mode Linux 6.1 the threads of xfs_repair that read ahead
// get wrong data, and it reports errors of an intact file system.
func isCleanWithoutPrefetch(device string) bool {
	return exec.Command("xfs_repair", "-n", "-P", device).Run() == nil
}

func testGrow(t *testing.T, r *rig, d loopDisk, fsType string) {
	testbed.RequirePrograms(t, fsType, map[string]string{"ext4": "resize2fs", "xfs": "xfs_growfs", "btrfs": "btrfs"}[fsType])
	mounted := disk.GrowRequest{Target: r.target()}
	needed, err := r.disks.NeedsGrow(t.Context(), mounted)
	require.NoError(t, err)
	require.False(t, needed)
	larger := sizeFor[fsType] + 128<<20
	d.resize(t, larger)
	needed, err = r.disks.NeedsGrow(t.Context(), mounted)
	require.NoError(t, err)
	require.True(t, needed)
	for range 2 {
		sizes, err := r.disks.Grow(t.Context(), mounted)
		if fsType == "ext4" && err != nil && strings.Contains(err.Error(), "Permission denied") {
			mounttest.SkipWithout(t, "growext4", err) // some kernels grow none that is mounted
		}
		require.NoError(t, err)
		require.Equal(t, larger, sizes.Device)
		require.InDelta(t, larger, sizes.FileSystem, 64<<10)
	}
	needed, err = r.disks.NeedsGrow(t.Context(), mounted)
	require.NoError(t, err)
	require.False(t, needed)
	require.Greater(t, bytesOf(t, r.target()), uint64(sizeFor[fsType]))
}

func bytesOf(t *testing.T, at string) uint64 {
	t.Helper()
	var stat unix.Statfs_t
	require.NoError(t, unix.Statfs(at, &stat))
	return stat.Blocks * uint64(stat.Bsize)
}

// TestGrowUnmounted: ext2 and its successors.
func TestGrowUnmounted(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	testbed.RequirePrograms(t, "ext4", "resize2fs", "mkfs.ext2")
	for _, fsType := range []string{"ext2", "ext4"} {
		d := r.disk(t, fsType, sizeFor[fsType])
		require.NoError(t, r.disks.Format(t.Context(), disk.FormatRequest{Device: d.device, FSType: fsType}))
		d.resize(t, 64<<20)
		request := disk.GrowRequest{Device: d.device}
		needed, err := r.disks.NeedsGrow(t.Context(), request)
		require.NoError(t, err)
		require.True(t, needed)
		sizes, err := r.disks.Grow(t.Context(), request)
		require.NoError(t, err)
		require.Equal(t, disk.Sizes{Device: 64 << 20, FileSystem: 64 << 20}, sizes)
	}
}

// TestGrowWithoutCapability: the error names the capability that ext4 requires to grow while it is mounted.
func TestGrowWithoutCapability(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	testbed.RequirePrograms(t, "ext4", "resize2fs", "setpriv")
	has, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_RESOURCE, 0, 0, 0)
	require.NoError(t, err)
	if has != 0 {
		self, err := os.Executable() // os.Args[0] is /proc/self/exe, which is another program to setpriv
		require.NoError(t, err)
		out, err := exec.Command("setpriv", "--bounding-set=-sys_resource", self, "-test.run=^TestGrowWithoutCapability$", "-test.v").CombinedOutput()
		require.NoError(t, err, string(out))
		require.Contains(t, string(out), "--- PASS: TestGrowWithoutCapability")
		return
	}
	d := r.disk(t, "disk", sizeFor["ext4"])
	r.mount(t, d.device, "ext4")
	d.resize(t, 2*sizeFor["ext4"])
	_, err = r.disks.Grow(t.Context(), disk.GrowRequest{Target: r.target()})
	require.ErrorContains(t, err, "requires CAP_SYS_RESOURCE in the initial user namespace: resize2fs: ")
	r.unmount(t)
	sizes, err := r.disks.Grow(t.Context(), disk.GrowRequest{Device: d.device})
	require.NoError(t, err, "a file system that is not mounted grows without it")
	require.Equal(t, sizes.Device, sizes.FileSystem)
}

// TestPartialBlock: a device may end within a logical block, which cannot be read.
func TestPartialBlock(t *testing.T) {
	onEachType(t, func(t *testing.T, r *rig, fsType string) {
		if fsType == "btrfs" {
			return // mkfs.btrfs refuses such a device
		}
		d := r.disk(t, "disk", sizeFor[fsType]+512)
		device, err := os.Open(d.device)
		require.NoError(t, err)
		const setBlockSize = 0x4c09 // LOOP_SET_BLOCK_SIZE of linux/loop.h
		require.NoError(t, errors.Join(unix.IoctlSetInt(int(device.Fd()), setBlockSize, 4096), device.Close()))
		for range 2 {
			require.NoError(t, r.disks.FormatAndMount(t.Context(), r.request(d.device, fsType)))
		}
		needed, err := r.disks.NeedsGrow(t.Context(), disk.GrowRequest{Target: r.target()})
		require.NoError(t, err)
		require.False(t, needed)
		r.unmount(t)
	})
}

// TestNodeSwapped: a path that leads to another device during the call does not lead a
// program to that device, and a mount of it is undone.
func TestNodeSwapped(t *testing.T) {
	r := newRig(t, "ext4", "xfs", "btrfs")
	if r == nil {
		return
	}
	require.NoError(t, unix.Mount("", r.dir, "", unix.MS_REMOUNT|unix.MS_BIND, "")) // with devices
	first, second := r.disk(t, "first", 320<<20), r.disk(t, "second", 320<<20)
	node := r.dir + "/node"
	precious := second.sum(t)
	for _, fsType := range []string{"ext4", "xfs", "btrfs"} {
		first.replaceNode(t, node)
		second.replaceNode(t, node+".other")
		r.replacePrograms(map[string]string{"mkfs." + fsType: "mv -f " + node + ".other " + node + "; exec mkfs." + fsType + ` "$@"`})
		err := r.disks.FormatAndMount(t.Context(), r.request(node, fsType))
		require.Error(t, err)
		if fsType != "btrfs" { // whose mkfs refuses the open file of a path that is gone
			require.ErrorIs(t, err, disk.ErrSwapped)
		}
		require.Equal(t, precious, second.sum(t), fsType)
		require.NoFileExists(t, node+".other", "mkfs has run")
		first.erase(t)
	}
	first.replaceNode(t, node)
	second.replaceNode(t, node+".other")
	r.replacePrograms(map[string]string{"mkfs.xfs": "mv -f " + node + ".other " + node + `; exec mkfs.xfs "$@"`})
	err := r.disks.Format(t.Context(), disk.FormatRequest{Device: node, FSType: "xfs"})
	require.ErrorIs(t, err, disk.ErrSwapped)
	require.ErrorIs(t, err, mount.ErrUncertain)
	first.erase(t)
	// Before mkfs.
	first.replaceNode(t, node)
	blank := first.sum(t)
	err = r.disks.Use(t.Context(), node, func(ctx context.Context, d *disk.Device) error {
		return d.Format(ctx, disk.Format{Begin: func() error { second.replaceNode(t, node); return nil }})
	})
	require.ErrorIs(t, err, disk.ErrSwapped)
	require.NotErrorIs(t, err, mount.ErrUncertain)
	require.Equal(t, blank, first.sum(t))
	require.Equal(t, precious, second.sum(t))

	run(t, "mkfs.ext4", "-q", first.device)
	run(t, "mkfs.ext4", "-q", "-F", second.device)
	precious = second.sum(t)
	for _, moment := range []string{"fsck", "mount"} {
		first.replaceNode(t, node)
		second.replaceNode(t, node+".other")
		if moment == "fsck" {
			r.replacePrograms(map[string]string{"fsck.ext4": "mv -f " + node + ".other " + node + `; exec fsck.ext4 "$@"`})
		} else {
			r.disks = disk.New(disk.Config{Mounter: swappingMounter{r.mounter, func() { second.replaceNode(t, node) }}})
		}
		require.ErrorIs(t, r.disks.FormatAndMount(t.Context(), r.request(node, "ext4")), disk.ErrSwapped, moment)
		mounted, err := r.mounter.IsMountPoint(t.Context(), r.target())
		require.NoError(t, err)
		require.False(t, mounted)
		if moment == "fsck" {
			require.Equal(t, precious, second.sum(t))
		}
	}
}

// A swappingMounter replaces the device at the node before each mount.
type swappingMounter struct {
	mount.Interface
	swap func()
}

// Mount implements mount.Interface.
func (s swappingMounter) Mount(ctx context.Context, req mount.Request) error {
	s.swap()
	return s.Interface.Mount(ctx, req)
}

// TestContextEnds: programs are killed with their children, and the next call finds the
// remains.
func TestContextEnds(t *testing.T) {
	onEachType(t, func(t *testing.T, r *rig, fsType string) {
		d := r.disk(t, "disk", sizeFor[fsType])
		began := r.dir + "/began"
		r.replacePrograms(map[string]string{"mkfs." + fsType: `"$0" "$@"; sleep 100000 & echo $! >` + began + ".new; mv " + began + ".new " + began + "; wait"})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.disks.FormatAndMount(ctx, r.request(d.device, fsType)) }()
		require.Eventually(t, func() bool { _, err := os.Stat(began); return err == nil }, time.Minute, 10*time.Millisecond)
		cancel()
		err := <-done
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, mount.ErrUncertain)
		pid, err := os.ReadFile(began)
		require.NoError(t, err)
		require.Eventually(t, func() bool { return !runs(strings.TrimSpace(string(pid))) }, time.Minute, 10*time.Millisecond)
		r.replacePrograms(nil)
		r.mount(t, d.device, fsType)
		r.unmount(t)
	})
}

// runs reports whether a process exists and is no zombie.
func runs(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}

// TestUnfinishedFormat checks that the state of an interrupted format counts as remains: without
// the superblock, which mkfs.ext4 writes last; after the first trees of mkfs.btrfs; and with
// the in-progress mark of mkfs.xfs.
func TestUnfinishedFormat(t *testing.T) {
	for fsType, cut := range map[string]string{
		"ext4": "dd if=/dev/zero of=$DEVICE bs=1k seek=1 count=1 conv=notrunc", "btrfs": "dd if=/dev/zero of=$DEVICE bs=64k seek=1 count=1 conv=notrunc",
		"xfs": `printf '\001' | dd of=$DEVICE bs=1 seek=126 count=1 conv=notrunc`,
	} {
		t.Run(fsType, func(t *testing.T) {
			r := newRig(t, fsType)
			if r == nil {
				return
			}
			d := r.disk(t, "disk", sizeFor[fsType])
			r.replacePrograms(map[string]string{"mkfs." + fsType: `"$0" "$@" && ` + cut + " && exit 1"})
			err := r.disks.FormatAndMount(t.Context(), r.request(d.device, fsType))
			require.ErrorIs(t, err, mount.ErrUncertain)
			c, err := r.disks.Probe(t.Context(), d.device)
			require.NoError(t, err)
			require.NotEmpty(t, c.Interrupted(), "%+v", c)
			r.replacePrograms(nil)
			r.mount(t, d.device, fsType)
			r.unmount(t)
		})
	}
}

// TestKilled: after SIGKILL at any system call the next process mounts the device, and what
// was on it is still there.
func TestKilled(t *testing.T) {
	for name, formatted := range map[string]bool{"format": false, "mount": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "ext4")
			if r == nil {
				return
			}
			d := r.disk(t, "disk", sizeFor["ext4"])
			if formatted {
				r.mount(t, d.device, "ext4")
				require.NoError(t, os.WriteFile(r.target()+"/file", []byte("text"), 0o600))
				r.unmount(t)
			}
			program := func() *exec.Cmd {
				if !formatted {
					d.erase(t)
				}
				return mounttest.Program("mount", r.dir, d.device)
			}
			kills := mounttest.KillAtEachCall(t, program, func(place string) {
				r.disks = disk.New(disk.Config{Mounter: r.mounter})
				require.Eventually(t, func() bool { // the killed process's system calls may still end
					err := r.disks.FormatAndMount(t.Context(), r.request(d.device, "ext4"))
					require.NotErrorAs(t, err, new(*disk.ContentError), place)
					return err == nil
				}, time.Minute, 10*time.Millisecond, place)
				if formatted {
					require.FileExists(t, r.target()+"/file", place)
				}
				r.unmount(t)
			})
			require.Positive(t, kills)
			t.Logf("killed at %d places", kills)
		})
	}
}

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){
		"mount": func(p mounttest.Process) {
			r := rigIn(p.Args[0])
			require.NoError(p, r.disks.FormatAndMount(context.Background(), r.request(p.Args[1], "ext4")))
		},
		"begin": func(p mounttest.Process) {
			script := "echo $$ >" + p.Args[0] + ".new; mv " + p.Args[0] + ".new " + p.Args[0] + "; exec sleep 100000"
			_ = disk.SystemPrograms().Run(context.Background(), disk.Command{Name: "sh", Args: []string{"-c", script}})
		},
	})
}

// TestProgramsEndWithTheProcess: a program does not outlive the process that started it, of
// which the next one starts another.
func TestProgramsEndWithTheProcess(t *testing.T) {
	began := filepath.Join(t.TempDir(), "began")
	process := mounttest.Program("begin", began)
	require.NoError(t, process.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(began); return err == nil }, time.Minute, 10*time.Millisecond)
	pid, err := os.ReadFile(began)
	require.NoError(t, err)
	require.True(t, runs(strings.TrimSpace(string(pid))))
	require.NoError(t, process.Process.Kill())
	require.Error(t, process.Wait())
	require.Eventually(t, func() bool { return !runs(strings.TrimSpace(string(pid))) }, time.Minute, 10*time.Millisecond)
}

// TestInUseByLoop: a loop device on a device is in use, but not one with the ignored name
// that ends with its last user.
func TestInUseByLoop(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk(t, "disk", sizeFor["ext4"])
	f, err := os.Open(d.device)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	on, err := loop.Attach(t.Context(), loop.Config{File: f, Name: "disk test", ReadOnly: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = loop.Detach(context.Background(), on) })
	testbed.DetachAtEnd(t, on.Path)
	require.ErrorIs(t, r.disks.FormatAndMount(t.Context(), r.request(d.device, "ext4")), disk.ErrInUse)
	inUse := func(ignore string) (used bool) {
		require.NoError(t, r.disks.Use(t.Context(), d.device, func(ctx context.Context, d *disk.Device) error {
			var err error
			used, err = d.InUse(ctx, ignore)
			return err
		}))
		return used
	}
	require.True(t, inUse("disk test"))
	user, err := os.Open(on.Path)
	require.NoError(t, err)
	require.NoError(t, loop.Detach(t.Context(), on))
	require.True(t, inUse(""))
	require.False(t, inUse("disk test"), "it is ending")
	require.NoError(t, user.Close())
	r.mount(t, d.device, "ext4")
	r.unmount(t)
}

// TestMkfsKilled: mkfs dies before its nth write to the device.
func TestMkfsKilled(t *testing.T) {
	if !testbed.Long() { // TestUnfinishedFormat has one of the places
		t.Skip("it takes minutes: VOLUMEKIT_LONG=1")
	}
	onEachType(t, func(t *testing.T, r *rig, fsType string) {
		testbed.RequirePrograms(t, "strace", "strace")
		d := r.disk(t, "disk", sizeFor[fsType])
		for n := 1; ; n++ {
			d.erase(t)
			ended := r.dir + "/ended"
			inject := "inject=pwrite64,pwritev,write:signal=KILL:when=" + strconv.Itoa(n)
			r.replacePrograms(map[string]string{"mkfs." + fsType: "strace -f -o /dev/null -P $DEVICE -e " + inject + ` "$0" "$@" && echo >` + ended})
			err := r.disks.FormatAndMount(t.Context(), r.request(d.device, fsType))
			if _, none := os.Stat(ended); none == nil {
				require.NoError(t, err)
				r.unmount(t)
				t.Logf("%d writes", n-1)
				require.Greater(t, n, 3)
				return
			}
			require.Error(t, err)
			r.replacePrograms(nil)
			require.NoError(t, r.disks.FormatAndMount(t.Context(), r.request(d.device, fsType)), "killed before write %d", n)
			r.unmount(t)
		}
	})
}

// TestDuplicateUUID: the error of the mount of a copy names the reason.
func TestDuplicateUUID(t *testing.T) {
	r := newRig(t, "xfs")
	if r == nil {
		return
	}
	first, second := r.disk(t, "first", sizeFor["xfs"]), r.disk(t, "second", sizeFor["xfs"])
	r.mount(t, first.device, "xfs")
	r.unmount(t)
	run(t, "cp", "--sparse=always", first.image, second.image)
	r.mount(t, first.device, "xfs")
	require.NoError(t, os.Mkdir(r.dir+"/other", 0o755))
	copied := r.request(second.device, "xfs")
	copied.Target = r.dir + "/other"
	err := r.disks.FormatAndMount(t.Context(), copied)
	require.ErrorIs(t, err, disk.ErrDuplicate)
	require.NotErrorIs(t, err, mount.ErrUncertain)
	copied.Options = []string{"nouuid"}
	require.NoError(t, r.disks.FormatAndMount(t.Context(), copied))
	require.NoError(t, r.mounter.Unmount(t.Context(), copied.Target))
	r.unmount(t)
}

// TestDirtyJournal: a journal on a read-only device.
func TestDirtyJournal(t *testing.T) {
	for fsType, option := range map[string]string{"ext4": "noload", "xfs": "norecovery", "btrfs": "rescue=nologreplay"} {
		t.Run(fsType, func(t *testing.T) {
			r := newRig(t, fsType)
			if r == nil {
				return
			}
			d := r.disk(t, "disk", sizeFor[fsType])
			r.mount(t, d.device, fsType)
			f, err := os.Create(r.target() + "/file")
			require.NoError(t, err)
			_, err = f.WriteString("text")
			require.NoError(t, err)
			require.NoError(t, f.Sync())
			require.NoError(t, f.Close())
			run(t, "cp", "--sparse=always", d.image, r.dir+"/crashed.image")
			r.unmount(t)
			crashed := r.readOnlyDisk(t, "crashed")
			err = r.disks.FormatAndMount(t.Context(), r.request(crashed.device, fsType))
			require.ErrorIs(t, err, disk.ErrDirty)
			require.NotErrorIs(t, err, mount.ErrUncertain)
			r.mount(t, crashed.device, fsType, "ro", option)
			r.unmount(t)
		})
	}
}

// TestRefuseLinks checks Config.RefuseLinks, which local volumes need.
func TestRefuseLinks(t *testing.T) {
	r := newRig(t, "ext4")
	if r == nil {
		return
	}
	d := r.disk(t, "disk", sizeFor["ext4"])
	link := r.dir + "/link"
	require.NoError(t, os.Symlink(d.device, link))
	strict := disk.New(disk.Config{Mounter: r.mounter, RefuseLinks: true})
	_, err := strict.Probe(t.Context(), link)
	require.ErrorIs(t, err, unix.ELOOP)
	_, err = strict.Identify(t.Context(), link)
	require.ErrorIs(t, err, unix.ELOOP)
	info, err := r.disks.Identify(t.Context(), link)
	require.NoError(t, err)
	require.Equal(t, d.device, info.Path)
	_, err = r.disks.Probe(t.Context(), "/dev/null")
	require.ErrorIs(t, err, unix.ENOTBLK)
}

// TestDeviceTooSmall: mkfs has failed, and the disk is blank.
func TestDeviceTooSmall(t *testing.T) {
	r := newRig(t, "ext4", "xfs", "btrfs")
	if r == nil {
		return
	}
	for fsType, size := range map[string]int64{"ext2": 64 << 10, "ext4": 64 << 10, "xfs": 16 << 20, "btrfs": 16 << 20} {
		d := r.disk(t, fsType, size)
		before := d.sum(t)
		err := r.disks.FormatAndMount(t.Context(), r.request(d.device, fsType))
		require.ErrorIs(t, err, disk.ErrTooSmall, fsType)
		require.NotErrorIs(t, err, mount.ErrUncertain)
		require.Equal(t, before, d.sum(t), fsType)
	}
	for fsType := range sizeFor {
		d := r.disk(t, fsType+"-shrunk", sizeFor[fsType])
		require.NoError(t, r.disks.Format(t.Context(), disk.FormatRequest{Device: d.device, FSType: fsType}))
		d.resize(t, sizeFor[fsType]-4<<20)
		before := d.sum(t)
		require.ErrorIs(t, r.disks.FormatAndMount(t.Context(), r.request(d.device, fsType)), disk.ErrTooSmall, fsType)
		require.Equal(t, before, d.sum(t), fsType)
	}
}
