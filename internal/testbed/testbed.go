package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// Long reports whether the tests that take their time are to take it.
func Long() bool { return os.Getenv("VOLUMEKIT_LONG") != "" }

// UpTo is how much of a thing a test does: a tenth of few with -short, which slow
// machines get.
func UpTo(few, all int) int {
	switch {
	case Long():
		return all
	case testing.Short():
		return few / 10
	}
	return few
}

// Dir is a temporary directory without a symbolic link in its path.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

// Fill makes files of mode 0640 and directories (those whose names end in a slash) of
// mode 0755, and what is above them.
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

// Descriptors is how many files the process has open.
func Descriptors(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

// Attack calls each function again and again, beside the test and beside the others,
// with the numbers from 0 on. It returns what ends that, and waits until it has ended;
// so does the end of the test, before it closes descriptors that were opened earlier:
// their numbers are somebody else's then.
func Attack(t testing.TB, attacks ...func(n int)) (stop func()) {
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
