package atomicdir

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneathtest"
	"golang.org/x/sys/unix"
)

// tick is longer than any kernel's resolution of the time of the last change.
const tick = 20 * time.Millisecond

// recordFromTick makes Write record sets from an age of a tick on, until the end of the test.
func recordFromTick(t *testing.T) {
	usual := settling
	settling = tick
	t.Cleanup(func() { settling = usual })
}

// mustRecord writes a set, and again after its files have settled: Write records the set.
func mustRecord(t *testing.T, dir string, files map[string]File) *record {
	t.Helper()
	mustWrite(t, dir, files, Options{})
	time.Sleep(2 * tick)
	require.False(t, mustWrite(t, dir, files, Options{}))
	r := recorded.get(dir)
	require.NotNil(t, r)
	return r
}

// onDiskAndInMemory runs a test on an ext4 and on a tmpfs.
func onDiskAndInMemory(t *testing.T, test func(t *testing.T, dir string)) {
	t.Parallel()
	t.Run("disk", func(t *testing.T) {
		t.Parallel()
		testbed.Disk{FSType: "ext4", Size: 64 << 20}.Run(t, test)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		beneathtest.OnEachKernel(t, test)
	})
}

// TestRecorded: changes of a recorded set, and of the directory around it, are repaired by the
// next Write, as those of a set without a record.
func TestRecorded(t *testing.T) {
	onDiskAndInMemory(t, func(t *testing.T, dir string) {
		recordFromTick(t)
		files := texts("a", "1", "d/b", "2", "empty", "")
		changes := changesOfSet(dir)
		changes["nested data"] = func() error { return os.WriteFile(dir+"/d/b", []byte("3"), 0) }
		changes["times"] = func() error {
			err := os.WriteFile(dir+"/a", []byte("3"), 0)
			if err == nil {
				err = os.Chtimes(dir+"/a", time.Unix(1, 0), time.Unix(1, 0))
			}
			return err
		}
		for what, change := range changes {
			mustRecord(t, dir, files)
			require.NoError(t, change(), what)
			require.True(t, mustWrite(t, dir, files, Options{}), what)
		}
		const left = "..2001_01_01_01_01_01.1"
		for what, change := range map[string]func() error{
			"a link is missing": func() error { return os.Remove(dir + "/a") },
			"another link":      func() error { return relink("elsewhere", dir+"/a") },
			"a leftover":        func() error { return os.Mkdir(dir+"/"+left, 0o755) },
			"a stale link":      func() error { return os.Symlink("..data/stale", dir+"/stale") },
		} {
			mustRecord(t, dir, files)
			require.NoError(t, change(), what)
			require.False(t, mustWrite(t, dir, files, Options{}), what)
			require.NoDirExists(t, dir+"/"+left)
		}
		for what, next := range map[string]map[string]File{
			"data": texts("a", "2", "d/b", "2", "empty", ""), "boundary": texts("a", "12", "d/b", "", "empty", ""),
			"name": texts("b", "1", "d/b", "2", "empty", ""), "fewer": texts("a", "1", "d/b", "2"),
		} {
			mustRecord(t, dir, files)
			require.True(t, mustWrite(t, dir, next, Options{}), what)
		}
		if t.Name() == "TestRecorded/disk" { // as root of the machine
			mustRecord(t, dir, files)
			another := 1
			next := texts("a", "1", "d/b", "2", "empty", "")
			next["a"] = File{Data: []byte("1"), UID: &another}
			require.True(t, mustWrite(t, dir, next, Options{}))
		}
		uid := os.Geteuid()
		for _, o := range []Options{{Mode: Perm(0o600)}, {DirMode: Perm(0o700)}} {
			mustRecord(t, dir, files)
			require.True(t, mustWrite(t, dir, files, o))
			require.True(t, mustWrite(t, dir, files, Options{UID: &uid}))
		}
	})
}

func relink(to, name string) error {
	if err := os.Remove(name); err != nil {
		return err
	}
	return os.Symlink(to, name)
}

// TestRecordedUnderMounts: a mount over a file, a directory of the set, or the set is no part of
// the recorded set.
func TestRecordedUnderMounts(t *testing.T) {
	onDiskAndInMemory(t, func(t *testing.T, dir string) {
		recordFromTick(t)
		files := texts("a", "1", "d/b", "2")
		for _, name := range []string{"", "/a", "/d", "/d/b"} {
			set := mustRecord(t, dir, files).set
			at := dir + "/" + set + name
			require.NoError(t, unix.Mount(at, at, "", unix.MS_BIND, ""))
			changed, err := Write(t.Context(), dir, files, Options{})
			require.True(t, changed, name)
			require.ErrorAs(t, err, new(*LeftoverError))
			require.NoError(t, unix.Unmount(at, 0))
			mustWrite(t, dir, files, Options{})
		}
	})
}

// TestMappedFiles: Write repairs files that another process changes through memory mappings,
// for which the kernel need not advance the time of the last change: mappings from before the
// set was recorded, and from afterwards.
func TestMappedFiles(t *testing.T) { onDiskAndInMemory(t, testMappedFiles) }

func testMappedFiles(t *testing.T, dir string) {
	recordFromTick(t)
	files := texts("a", "1", "b", "2")
	mustWrite(t, dir, files, Options{})
	before := mapFile(t, dir+"/a")
	before[0] = '1'
	for range 2 {
		time.Sleep(2 * tick)
		require.False(t, mustWrite(t, dir, files, Options{}))
	}
	before[0] = 'x'
	require.True(t, mustWrite(t, dir, files, Options{}))

	mustRecord(t, dir, files)
	after := mapFile(t, dir+"/b")
	require.Equal(t, byte('2'), after[0], "the page is mapped by reading it")
	time.Sleep(2 * tick)
	after[0] = 'x'
	require.True(t, mustWrite(t, dir, files, Options{}))
}

// TestMappedFilesWithoutHandles is TestMappedFiles for a process that may not open files by
// handle.
func TestMappedFilesWithoutHandles(t *testing.T) {
	onDiskAndInMemory(t, func(t *testing.T, dir string) {
		openByHandle = func(int, unix.FileHandle, int) (int, error) { return -1, unix.EPERM }
		t.Cleanup(func() { openByHandle = unix.OpenByHandleAt })
		testMappedFiles(t, dir)
	})
}

// mapFile maps a file for writing until the end of the test.
func mapFile(t *testing.T, name string) []byte {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	data, err := unix.Mmap(int(f.Fd()), 0, 1, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	t.Cleanup(func() { _ = unix.Munmap(data) })
	return data
}

// TestUnsettled: a set is not recorded just after a change of a directory or a file: a further
// change within the resolution of the kernel's clock would have the same time.
func TestUnsettled(t *testing.T) {
	testbed.Disk{FSType: "ext4", Size: 64 << 20}.Run(t, func(t *testing.T, dir string) {
		recordFromTick(t)
		t.Cleanup(func() { now = time.Now })
		files := texts("a", "1", "d/b", "2", "empty", "")
		for _, name := range []string{"", "/..data", "/d", "/a", "/empty", "/d/b"} {
			mustRecord(t, dir, files)
			recordAfterChange(t, dir+name, dir, files)
			require.Nil(t, recorded.get(dir), name)
		}
	})
}

// recordAfterChange changes an entry, and then writes the set when only this entry has not
// settled.
func recordAfterChange(t *testing.T, name, dir string, files map[string]File) {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	require.NoError(t, os.Chmod(name, info.Mode()))
	info, err = os.Stat(name)
	require.NoError(t, err)
	changed := info.Sys().(*syscall.Stat_t).Ctim
	now = func() time.Time { return time.Unix(changed.Unix()).Add(settling) }
	require.False(t, mustWrite(t, dir, files, Options{}))
	now = time.Now
}

// TestNotRecorded: sets with mount points, and on file systems whose times are not known to be
// reliable, are read each time.
func TestNotRecorded(t *testing.T) {
	beneathtest.OnEachKernel(t, func(t *testing.T, dir string) {
		recordFromTick(t)
		files := texts("a", "1")
		for range 3 {
			_, err := Write(t.Context(), dir, files, Options{MountPoints: []MountPoint{{Name: "d"}}})
			require.NoError(t, err)
			time.Sleep(2 * tick)
		}
		require.Nil(t, recorded.get(dir))
	})
	w := &writer{begun: time.Now()}
	fd, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	w.root = fd
	require.Nil(t, w.newRecorder(""))
}

// TestRecords: the records of all directories have a bounded size.
func TestRecords(t *testing.T) {
	var r records
	for i := range 1000 {
		r.set(strconv.Itoa(i), &record{files: make([]file, 1000)})
	}
	require.LessOrEqual(t, r.stamps, mostStamps)
	require.Greater(t, len(r.byDir), 100)
	require.NotNil(t, r.get("999"))
	r.set("999", &record{files: make([]file, mostStamps)})
	require.Nil(t, r.get("999"))
	for dir := range r.byDir {
		r.set(dir, nil)
	}
	require.Zero(t, r.stamps)
}

// TestLeaseOfAnother: Write does not wait for another process that has a lease on a file for
// writing, and replaces the file.
func TestLeaseOfAnother(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	files := texts("a", "1")
	mustWrite(t, dir, files, Options{})
	fd, err := unix.Open(dir+"/a", unix.O_RDWR|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { _ = unix.Close(fd) }()
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETSIG, int(unix.SIGURG))
	require.NoError(t, err)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	require.NoError(t, err)
	require.True(t, mustWrite(t, dir, files, Options{}))
}

// TestAllocationsOfRecorded pins the allocations of a Write that changes nothing, for each of
// its files: the name for statx(2), and on tmpfs up to three more to open and read the file.
func TestAllocationsOfRecorded(t *testing.T) {
	t.Run("disk", func(t *testing.T) {
		testbed.Disk{FSType: "ext4", Size: 64 << 20}.Run(t, func(t *testing.T, dir string) { pinAllocations(t, dir, 1) })
	})
	t.Run("memory", func(t *testing.T) {
		beneathtest.OnEachKernel(t, func(t *testing.T, dir string) { pinAllocations(t, dir, 4) })
	})
}

// pinAllocations requires at most so many allocations for each file of a recorded set.
func pinAllocations(t *testing.T, dir string, most float64) {
	recordFromTick(t)
	allocations := func(n int) float64 {
		dir := filepath.Join(dir, strconv.Itoa(n))
		require.NoError(t, os.Mkdir(dir, 0o755))
		files := map[string]File{}
		for i := range n {
			files["file"+strconv.Itoa(i)] = File{Data: []byte("text")}
		}
		mustRecord(t, dir, files)
		return testing.AllocsPerRun(100, func() { _, _ = Write(t.Context(), dir, files, Options{}) })
	}
	few, many := allocations(4), allocations(68)
	const rest = 0.25 // of larger maps
	require.LessOrEqual(t, (many-few)/64, most+rest)
}
