package unmounting_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/unmounting"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestSmallTmpfsNeedsNoHold: a small tmpfs is unmounted without a hold. A large one, and one of
// unknown size, has a hold during umount2(2).
func TestSmallTmpfsNeedsNoHold(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	if !hasUniqueIDs(t, newDir(t)) {
		mounttest.SkipWithout(t, "mountevents", "an older kernel needs a hold for each tmpfs")
	}
	const most = unmounting.MaxBriefBytes
	for name, c := range map[string]struct {
		options      string
		bytes, files int
		held         bool
	}{
		"empty":         {options: "size=64m"},
		"small":         {options: "size=64m", bytes: most},
		"large":         {options: "size=64m", bytes: most + 1, held: true},
		"some files":    {options: "size=64m", files: unmounting.MaxBriefFiles - 1},
		"many files":    {options: "size=64m", files: unmounting.MaxBriefFiles, held: true},
		"size unknown":  {options: "size=0", held: true},
		"files unknown": {options: "size=64m,nr_inodes=0", held: true},
		"full":          {options: "size=4k", bytes: 4 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			target := newDir(t)
			require.NoError(t, unix.Mount("tmpfs", target, "tmpfs", 0, c.options))
			t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
			for i := range c.files {
				require.NoError(t, os.WriteFile(target+"/"+strconv.Itoa(i), nil, 0o600))
			}
			if c.bytes > 0 {
				require.NoError(t, os.WriteFile(target+"/content", make([]byte, c.bytes), 0o600))
			}
			held := watchHolds(t, target)
			require.NoError(t, newUnmounter().Unmount(t.Context(), target))
			require.Equal(t, []int{holdCount(c.held)}, *held)
		})
	}
}

// TestOverlayGetsHold: the end of another file system may wait for a device or a server, however
// small statfs(2) reports it. An overlay reports the size of its upper layer.
func TestOverlayGetsHold(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	layers, target := newDir(t), newDir(t)
	mountTmpfs(t, "tmpfs", layers)
	for _, name := range []string{"lower", "upper", "work"} {
		require.NoError(t, os.Mkdir(layers+"/"+name, 0o755))
	}
	options := fmt.Sprintf("lowerdir=%s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work,userxattr", layers)
	if err := unix.Mount("overlay", target, "overlay", 0, options); err != nil {
		mounttest.SkipWithout(t, "overlay", err.Error())
	}
	t.Cleanup(func() { _ = unix.Unmount(target, unix.MNT_DETACH) })
	held := watchHolds(t, target)
	require.NoError(t, newUnmounter().Unmount(t.Context(), target))
	require.Equal(t, []int{1}, *held)
}

// TestBusyTmpfsGetsHold: a small tmpfs that was busy has a hold in the next attempt, as a process
// may have written much.
func TestBusyTmpfsGetsHold(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	if !hasUniqueIDs(t, newDir(t)) {
		mounttest.SkipWithout(t, "mountevents", "an older kernel needs a hold for each tmpfs")
	}
	target := newDir(t)
	mountTmpfs(t, "tmpfs", target)
	file, err := os.Create(target + "/file")
	require.NoError(t, err)
	held := watchHolds(t, target)
	umount2 := unmounting.Umount2
	unmounting.Umount2 = func(path string, flags int) error {
		err := umount2(path, flags)
		_ = file.Close()
		return err
	}
	require.NoError(t, newUnmounter().Unmount(t.Context(), target))
	require.Equal(t, []int{1, 1}, *held, "one descriptor: the file, then the hold")
	requireUnmounted(t, target)
}

func holdCount(held bool) int {
	if held {
		return 1
	}
	return 0
}

// watchHolds records at each umount2(2) the number of descriptors of the file system that is
// mounted at path.
func watchHolds(t *testing.T, path string) *[]int {
	t.Helper()
	device := func(fd int, name string) kernel.Device {
		var x unix.Statx_t
		_ = unix.Statx(fd, name, unix.AT_EMPTY_PATH, unix.STATX_TYPE, &x)
		return kernel.Device{Major: x.Dev_major, Minor: x.Dev_minor}
	}
	mounted := device(unix.AT_FDCWD, path)
	held := new([]int)
	umount2 := unmounting.Umount2
	t.Cleanup(func() { unmounting.Umount2 = umount2 })
	unmounting.Umount2 = func(path string, flags int) error {
		entries, err := os.ReadDir("/proc/self/fd")
		n := 0
		for _, entry := range entries {
			var fd int
			if _, scanErr := fmt.Sscan(entry.Name(), &fd); scanErr == nil && device(fd, "") == mounted {
				n++
			}
		}
		*held = append(*held, n)
		if err != nil {
			return err
		}
		return umount2(path, flags)
	}
	return held
}
