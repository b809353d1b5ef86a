package mounttest_test

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestMemoryFilesMatchSystem makes the same random calls in memory and on disk, with paths
// through directories, files and links, and with missing paths, and compares the results.
func TestMemoryFilesMatchSystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the errors are those of Linux")
	}
	for seed := range uint64(8) {
		disk := t.TempDir() + "/root" // "../a" leads to the directory above at most
		memory := &mounttest.MemoryFiles{}
		require.NoError(t, os.Mkdir(disk, 0o755))
		require.NoError(t, memory.MkdirAll(disk, 0o755))
		pair := fileComparison{rand.New(rand.NewPCG(seed, 1)), disk, memory}
		for n := range 1500 {
			call, inMemory, onDisk := pair.step()
			require.Equal(t, onDisk, inMemory, "seed %d, call %d: %s", seed, n, call)
		}
	}
}

type fileComparison struct {
	random *rand.Rand
	disk   string
	memory *mounttest.MemoryFiles
}

// path returns one of few paths, which often exist.
func (p fileComparison) path() string {
	name := p.disk
	for range 1 + p.random.IntN(3) {
		name += "/" + []string{"a", "b", "c"}[p.random.IntN(3)]
	}
	return name
}

func (p fileComparison) target() string {
	return []string{"a", "b/c", "../a", "c/..", "none", p.disk + "/b", "./a"}[p.random.IntN(7)]
}

// step makes one call on both sides, and returns its name and both results.
func (p fileComparison) step() (call, inMemory, onDisk string) {
	m, a, b, link := p.memory, p.path(), p.path(), p.target()
	text := []byte(fmt.Sprint(p.random.IntN(100)))
	calls := []struct {
		name             string
		inMemory, onDisk func() (string, error)
	}{
		{"mkdir " + a, withoutResult(func() error { return m.Mkdir(a, 0o755) }), withoutResult(func() error { return os.Mkdir(a, 0o755) })},
		{"mkdirall " + a, withoutResult(func() error { return m.MkdirAll(a, 0o755) }), withoutResult(func() error { return os.MkdirAll(a, 0o755) })},
		{"symlink " + link + " " + a, withoutResult(func() error { return m.Symlink(link, a) }), withoutResult(func() error { return os.Symlink(link, a) })},
		{"write " + a, withoutResult(func() error { return m.WriteFile(a, text, 0o644) }), withoutResult(func() error { return os.WriteFile(a, text, 0o644) })},
		{"remove " + a, withoutResult(func() error { return m.Remove(a) }), withoutResult(func() error { return os.Remove(a) })},
		{"rename " + a + " " + b, withoutResult(func() error { return m.Rename(a, b) }), withoutResult(func() error { return syscall.Rename(a, b) })},
		{"read " + a, readWith(m.ReadFile, a), readWith(os.ReadFile, a)},
		{"readlink " + a, readWith(m.Readlink, a), readWith(os.Readlink, a)},
		{"lstat " + a, statWith(m.Lstat, a), statWith(os.Lstat, a)},
		{"readdir " + a, listWith(m.ReadDir, a), listWith(os.ReadDir, a)},
	}
	chosen := calls[p.random.IntN(len(calls))]
	return chosen.name, describeOutcome(chosen.inMemory()), describeOutcome(chosen.onDisk())
}

func describeOutcome(result string, err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return "ok " + result
	case !errors.As(err, &errno):
		return err.Error()
	case errno == syscall.EEXIST: // also the error of rename(2) for a directory that is not empty
		errno = syscall.ENOTEMPTY
	}
	return errno.Error()
}

func withoutResult(work func() error) func() (string, error) {
	return func() (string, error) { return "", work() }
}

func readWith[T string | []byte](read func(string) (T, error), name string) func() (string, error) {
	return func() (string, error) {
		data, err := read(name)
		return string(data), err
	}
}

func statWith(lstat func(string) (fs.FileInfo, error), name string) func() (string, error) {
	return func() (string, error) {
		info, err := lstat(name)
		if err != nil {
			return "", err
		}
		if info.IsDir() {
			return info.Mode().Type().String(), nil
		}
		return fmt.Sprint(info.Mode(), info.Size()), nil
	}
}

func listWith(read func(string) ([]fs.DirEntry, error), name string) func() (string, error) {
	return func() (string, error) {
		entries, err := read(name)
		text := ""
		for _, e := range entries {
			text += fmt.Sprint(e.Name(), e.Type(), " ")
		}
		return text, err
	}
}

func TestMemoryFiles(t *testing.T) {
	files := &mounttest.MemoryFiles{}
	info, err := files.Lstat("/")
	require.NoError(t, err)
	require.True(t, info.IsDir())
	require.NoError(t, files.MkdirAll("/dev/mapper", 0o755))
	require.NoError(t, files.Mknod("/dev/sda", fs.ModeDevice|0o600))
	require.NoError(t, files.Rename("/dev/sda", "/dev/sdb"))
	info, err = files.Lstat("/dev/sdb")
	require.NoError(t, err)
	require.Equal(t, fs.ModeDevice|0o600, info.Mode())
	require.Equal(t, "sdb", info.Name())
	again, err := files.Lstat("/dev/sdb")
	require.NoError(t, err)
	require.True(t, files.SameFile(info, again))
	system, err := os.Lstat("/")
	require.NoError(t, err)
	require.False(t, files.SameFile(info, system))

	for name, err := range map[string]error{
		"relative":  files.Mkdir("dir", 0o755),
		"not clean": files.Mkdir("/dir/", 0o755),
		"NUL":       files.WriteFile("/a\x00b", nil, 0o644),
		"inside":    files.Rename("/dev", "/dev/mapper/dev"),
		"mknod":     files.Mknod("/dir", fs.ModeDir),
	} {
		require.ErrorIs(t, err, syscall.EINVAL, name)
		var failed *fs.PathError
		require.ErrorAs(t, err, &failed, name)
	}
	require.ErrorIs(t, files.Remove("/"), syscall.EBUSY)
	require.NoError(t, files.Symlink("/loop", "/loop"))
	_, err = files.ReadFile("/loop")
	require.ErrorIs(t, err, syscall.ELOOP)
}
