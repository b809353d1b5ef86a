package scrub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// verbVar makes the test binary a program that scrubs a directory.
const (
	verbVar = "VOLUMEKIT_TEST_VERB"
	dirVar  = "VOLUMEKIT_TEST_DIR"
)

func TestMain(m *testing.M) {
	if verb := os.Getenv(verbVar); verb != "" {
		os.Exit(runVerb(verb, os.Getenv(dirVar)))
	}
	os.Exit(m.Run())
}

func runVerb(verb, dir string) int {
	r, err := Open(dir)
	if err == nil {
		o := Options{Workers: 2}
		if verb == "trash" {
			o.Trash = ".trash"
		}
		_, err = r.Empty(context.Background(), o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// long reports whether the tests that take their time are to take it.
func long() bool { return os.Getenv("VOLUMEKIT_LONG") != "" }

// upTo is how much of a thing a test does: a tenth of few with -short, which slow
// machines get.
func upTo(few, all int) int {
	switch {
	case long():
		return all
	case testing.Short():
		return few / 10
	}
	return few
}

// onEachKernel runs a test in a namespace, on a tmpfs of its own, with openat2 and
// without.
func onEachKernel(t *testing.T, test func(t *testing.T, dir string)) {
	for _, way := range []string{"openat2", "without"} {
		t.Run(way, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			if way == "openat2" && !beneath.HasOpenat2() {
				mounttest.SkipWithout(t, "openat2", "this kernel has none")
			}
			beneath.WithoutOpenat2 = way == "without"
			test(t, tmpfs(t, realTempDir(t)))
		})
	}
}

func realTempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func tmpfs(t *testing.T, dir string) string {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", 0, "nr_inodes=0,size=80%"))
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// onExt4 runs a test as root on an ext4 of its own.
func onExt4(t *testing.T, test func(t *testing.T, dir string)) {
	onDisk(t, "ext4", 64<<20, []string{"-q", "-F", "-N", "32768"}, test)
}

// onBtrfs is the like.
func onBtrfs(t *testing.T, test func(t *testing.T, dir string)) {
	onDisk(t, "btrfs", 256<<20, []string{"-q", "-f"}, test)
}

// onDisk runs a test as root on a file system in a file. What is missing for that may
// be missing: loop devices, the file system, its mkfs.
func onDisk(t *testing.T, kind string, size int64, options []string, test func(t *testing.T, dir string)) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := realTempDir(t)
	image, target := dir+"/image", dir+"/target"
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, size))
	require.NoError(t, os.Mkdir(target, 0o755))
	if out, err := exec.Command("mkfs."+kind, append(options, image)...).CombinedOutput(); err != nil {
		mounttest.SkipWithout(t, lack(kind), string(out)+err.Error())
	}
	out, err := exec.Command("losetup", "--find", "--show", image).CombinedOutput()
	if err != nil {
		mounttest.SkipWithout(t, "loop", string(out)+err.Error())
	}
	device := strings.TrimSpace(string(out))
	t.Cleanup(func() { require.NoError(t, exec.Command("losetup", "--detach", device).Run()) })
	if err := unix.Mount(device, target, kind, 0, ""); errors.Is(err, unix.ENODEV) {
		mounttest.SkipWithout(t, lack(kind), "this kernel does not have it")
	} else {
		require.NoError(t, err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(target, 0)) })
	test(t, target)
}

// lack is what a skip is for: where there are loop devices there is ext4.
func lack(kind string) string {
	if kind == "ext4" {
		return "loop"
	}
	return kind
}

// fill makes files and directories (those whose names end in a slash), and what is
// above them.
func fill(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(dir+"/"+name, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(dir+"/"+name), 0o755))
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(name), 0o644))
	}
}

// open is of a directory in dir, which is made if it is missing.
func open(t *testing.T, dir string) *Root {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	r, err := Open(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// list returns all that is in a directory, relative to it.
func list(t *testing.T, dir string) []string {
	t.Helper()
	names := []string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if name, ok := strings.CutPrefix(path, dir+"/"); ok {
			names = append(names, name)
		}
		return err
	}))
	return names
}

// paths are those that an error names.
func paths(t *testing.T, err error) []string {
	t.Helper()
	var left *UnremovableError
	require.ErrorAs(t, err, &left)
	var names []string
	for _, entry := range left.Entries {
		names = append(names, entry.Path)
	}
	return names
}

// instead puts another unlinkat in place for a test.
func instead(t *testing.T, call func(dir int, name string, flags int) error) {
	t.Helper()
	unlinkat = call
	t.Cleanup(func() { unlinkat = unix.Unlinkat })
}

// Of linux/fs.h.
const (
	immutableFlag = 0x10
	appendFlag    = 0x20
)

// protect sets one of them, as chattr(1) does, or takes them away.
func protect(t *testing.T, name string, flag int) {
	t.Helper()
	fd, err := unix.Open(name, unix.O_RDONLY, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	require.NoError(t, err)
	flags = flags&^(immutableFlag|appendFlag) | flag
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags))
}

// subvolume makes one of btrfs, as btrfs(8) does: struct btrfs_ioctl_vol_args of
// linux/btrfs.h is a descriptor, and the name.
func subvolume(t *testing.T, dir, name string) {
	t.Helper()
	const subvolCreate = 0x5000940e
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	var args struct {
		fd   int64
		name [4088]byte
	}
	copy(args.name[:], name)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), subvolCreate, uintptr(unsafe.Pointer(&args)))
	require.Zero(t, errno)
}

func inode(t *testing.T, name string) uint64 {
	t.Helper()
	var stat syscall.Stat_t
	require.NoError(t, syscall.Lstat(name, &stat))
	return stat.Ino
}
