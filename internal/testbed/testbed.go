package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testflag"
)

// Long reports whether tests run at full length.
func Long() bool { return os.Getenv("VOLUMEKIT_LONG") != "" }

// UpTo returns the number of repetitions of a test: few, all if Long, or a tenth of few with
// -short, for slow machines.
func UpTo(few, all int) int {
	switch {
	case Long():
		return all
	case testing.Short():
		return few / 10
	}
	return few
}

// Dir returns a temporary directory without a symbolic link in its path.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

// Memory returns a directory of the machine whose files are in memory, for tests that need no certain file system and
// sync their files, or TMPDIR. It allows no devices on some machines.
var Memory = sync.OnceValue(func() string {
	const shm = "/dev/shm"
	dir, err := os.MkdirTemp(shm, "probe")
	if err != nil {
		return os.TempDir()
	}
	_ = os.Remove(dir)
	return shm
})

// Fill creates files of mode 0640 and directories (names that end in a slash) of mode 0755,
// and their parents.
func Fill(t testing.TB, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if strings.HasSuffix(name, "/") {
			require.NoError(t, os.MkdirAll(dir+"/"+name, 0o755))
			continue
		}
		require.NoError(t, os.MkdirAll(filepath.Dir(dir+"/"+name), 0o755))
		require.NoError(t, os.WriteFile(dir+"/"+name, []byte(name), 0o600))
		require.NoError(t, os.Chmod(dir+"/"+name, 0o640))
	}
}

// Descriptors returns the number of open files of the process.
func Descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// Attack calls each function repeatedly, in a goroutine of its own, with the numbers from 0
// on. Stop ends the calls and waits for their end; so does the end of the test, before it
// closes descriptors that were opened earlier, whose numbers would be reused. The test must have the mark of [Attacks].
func Attack(t testing.TB, attacks ...func(n int)) (stop func()) {
	t.Helper()
	if !testflag.Required("attack") {
		t.Fatal("the test attacks, and its mark is missing: testbed.Attacks")
	}
	done := make(chan struct{})
	var attackers sync.WaitGroup
	for _, attack := range attacks {
		attackers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
					attack(n)
				}
			}
		})
	}
	stop = sync.OnceFunc(func() {
		close(done)
		attackers.Wait()
	})
	t.Cleanup(stop)
	return stop
}
