package atomicdir

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// TestReaders: a reader that opens ..data and reads from there sees one generation, or that
// it has been replaced meanwhile; a reader that opens a file sees all of it.
func TestReaders(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := testbed.Tmpfs(t, testbed.Dir(t))
	mustWrite(t, dir, generation(0), Options{})
	var done atomic.Bool
	var whole, files atomic.Int64
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for !done.Load() {
				data, err := readSet(dir)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil || len(data) != 3 || data[0] != data[1] || data[1] != data[2] {
					t.Errorf("a reader sees %q, %v", data, err)
					return
				}
				whole.Add(1)
			}
		})
		readers.Go(func() {
			for !done.Load() {
				data, err := os.ReadFile(dir + "/a")
				if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && len(data) < len("generation 0") {
					t.Errorf("a reader sees %q, %v", data, err)
					return
				}
				files.Add(1)
			}
		})
	}
	// More rounds until readers have run often enough.
	for n := 1; n < testbed.UpTo(200, 5000) || whole.Load() < 10 || files.Load() < 10; n++ {
		mustWrite(t, dir, generation(n), Options{})
		if t.Failed() {
			break
		}
	}
	done.Store(true)
	readers.Wait()
}

// readSet reads three files of one set.
func readSet(dir string) ([]string, error) {
	fd, err := unix.Open(dir+"/..data", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	var all []string
	for _, name := range []string{"a", "d/b", "d/e/c"} {
		data, err := readAt(fd, name)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return all, nil
}

func readAt(dir int, name string) (string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(fd) }()
	buf := make([]byte, 64)
	n, err := unix.Read(fd, buf)
	return string(buf[:max(n, 0)]), err
}

// TestLinksComeAndGo: a name that both sets have is never missing.
func TestLinksComeAndGo(t *testing.T) {
	dir := testbed.Dir(t)
	mustWrite(t, dir, generation(0), Options{})
	before := lstat(t, dir+"/a").Ino
	for n := range 3 {
		mustWrite(t, dir, generation(n), Options{})
		require.Equal(t, before, lstat(t, dir+"/a").Ino)
	}
}
