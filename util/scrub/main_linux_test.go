package scrub

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"golang.org/x/sys/unix"
)

// These variables make the test binary a program that scrubs a directory.
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
	r, err := Open(context.Background(), dir)
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

// onExt4 runs a test as root on an ext4 of its own.
func onExt4(t *testing.T, test func(t *testing.T, dir string)) {
	testbed.Disk{FSType: "ext4", Size: 64 << 20, Options: []string{"-q", "-F", "-N", "32768"}}.Run(t, test)
}

// onBtrfs runs a test as root on a btrfs of its own.
func onBtrfs(t *testing.T, test func(t *testing.T, dir string)) {
	testbed.Disk{FSType: "btrfs", Size: 256 << 20, Options: []string{"-q", "-f"}}.Run(t, test)
}

// open opens a directory, which it creates if it is missing.
func open(t *testing.T, dir string) *Root {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	r, err := Open(context.Background(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// list returns the paths of all entries below a directory, relative to it.
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

// paths returns the paths that an error names.
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

// replaceUnlinkat replaces unlinkat for a test.
func replaceUnlinkat(t *testing.T, call func(dir int, name string, flags int) error) {
	t.Helper()
	unlinkat = call
	t.Cleanup(func() { unlinkat = unix.Unlinkat })
}

func inode(t *testing.T, name string) uint64 {
	t.Helper()
	var stat syscall.Stat_t
	require.NoError(t, syscall.Lstat(name, &stat))
	return stat.Ino
}
