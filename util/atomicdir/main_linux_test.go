package atomicdir

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
)

// These variables make the test binary a program that writes the new set to a
// directory, with mount points or without.
const (
	dirVar    = "VOLUMEKIT_TEST_DIR"
	pointsVar = "VOLUMEKIT_TEST_POINTS"
)

func TestMain(m *testing.M) {
	testbed.WaitTogether()
	if work := os.Getenv(workVar); work != "" {
		if err := runWork(work, os.Getenv(setsVar)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if dir := os.Getenv(dirVar); dir != "" {
		os.Exit(runWrite(dir))
	}
	os.Exit(m.Run())
}

func runWrite(dir string) int {
	var o Options
	if os.Getenv(pointsVar) != "" {
		o.MountPoints = inDirectory
	}
	if _, err := Write(context.Background(), dir, generation(2), o); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// onEachKernel runs a test with openat2 and without it.
func onEachKernel(t *testing.T, test func(t *testing.T)) {
	t.Run("openat2", func(t *testing.T) {
		if !beneath.HasOpenat2() {
			mounttest.SkipWithout(t, "openat2", "this kernel has none")
		}
		test(t)
	})
	t.Run("without", func(t *testing.T) {
		beneath.WithoutOpenat2 = true
		t.Cleanup(func() { beneath.WithoutOpenat2 = false })
		test(t)
	})
}

// generation returns a set whose files all contain its number, and some of which change from
// set to set. There are few names: entries that attackers put at other names stay, and
// among thousands of those the attackers would hardly hit their targets.
func generation(n int) map[string]File {
	data := fmt.Appendf(nil, "generation %d", n)
	return map[string]File{
		"a":                          {Data: data},
		"d/b":                        {Data: data, Mode: Perm(0o640)},
		"d/e/c":                      {Data: data},
		fmt.Sprintf("of-%d", n%16):   {Data: data},
		fmt.Sprintf("dir-%d/f", n%2): {Data: data},
	}
}

// texts returns files with these names and contents.
func texts(pairs ...string) map[string]File {
	files := map[string]File{}
	for i := 0; i < len(pairs); i += 2 {
		files[pairs[i]] = File{Data: []byte(pairs[i+1])}
	}
	return files
}

func mustWrite(t *testing.T, dir string, files map[string]File, o Options) (changed bool) {
	t.Helper()
	changed, err := Write(t.Context(), dir, files, o)
	require.NoError(t, err)
	requireSet(t, dir, files)
	return changed
}

// requireSet verifies that readers find these files through the expected links, and that
// there are no leftovers.
func requireSet(t *testing.T, dir string, files map[string]File) {
	t.Helper()
	set, err := os.Readlink(dir + "/..data")
	require.NoError(t, err)
	require.Regexp(t, setName, set)
	l, err := arrange(files, nil)
	require.NoError(t, err)
	l.addLinks()
	var have []string
	require.NoError(t, filepath.WalkDir(dir+"/"+set, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			have = append(have, strings.TrimPrefix(name, dir+"/"+set+"/"))
		}
		return err
	}))
	require.Len(t, have, len(files))
	for name, f := range l.files {
		data, err := os.ReadFile(dir + "/" + name)
		require.NoError(t, err)
		require.Equal(t, string(f.Data), string(data), name)
	}
	for top := range l.seen.links {
		link, err := os.Readlink(dir + "/" + top)
		require.NoError(t, err)
		require.Equal(t, "..data/"+top, link)
	}
	require.ElementsMatch(t, []string{"..data", set}, hidden(t, dir))
	for _, name := range entries(t, dir) {
		link, err := os.Readlink(dir + "/" + name)
		require.True(t, err != nil || l.seen.has(name) || link != "..data/"+name, "%s is stale", name)
	}
}

func hidden(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	for _, name := range entries(t, dir) {
		if strings.HasPrefix(name, "..") {
			names = append(names, name)
		}
	}
	return names
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, entry := range list {
		names = append(names, entry.Name())
	}
	return names
}

func lstat(t *testing.T, name string) *syscall.Stat_t {
	t.Helper()
	var stat syscall.Stat_t
	require.NoError(t, syscall.Lstat(name, &stat))
	return &stat
}
