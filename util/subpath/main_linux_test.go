package subpath

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// These variables make the test binary a program that binds or cleans up.
const (
	verbVar  = "VOLUMEKIT_TEST_VERB"
	dirVar   = "VOLUMEKIT_TEST_DIR"
	tierVar  = "VOLUMEKIT_TEST_TIER"
	timesVar = "VOLUMEKIT_TEST_TIMES"
)

func TestMain(m *testing.M) {
	if verb := os.Getenv(verbVar); verb != "" {
		os.Exit(runVerb(verb, os.Getenv(dirVar)))
	}
	os.Exit(m.Run())
}

func runVerb(verb, dir string) int {
	var tier mount.Tier
	_, _ = fmt.Sscan(os.Getenv(tierVar), (*int)(&tier))
	m := mount.New(mount.Config{Tier: tier, StagingDir: dir + "/staging"})
	var err error
	switch verb {
	case "bind":
		_, err = Bind(context.Background(), m, request(dir, "new/sub/path"))
	case "cleanup":
		err = Cleanup(context.Background(), m, dir+"/pod", "vol")
	case "rounds":
		err = rounds(m, dir, os.Getenv(timesVar))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// A site has a pod's directory, and a volume on a file system of its own.
type site struct {
	*testing.T
	m    mount.Interface
	tier mount.Tier
	dir  string
}

// onEachTier runs a test on each tier of the mounter that the kernel supports.
func onEachTier(t *testing.T, test func(s *site)) {
	t.Helper()
	for _, tier := range mount.Tiers() {
		t.Run(tier.String(), func(t *testing.T) {
			if mounttest.Namespace(t) {
				test(newSite(t, tier))
			}
		})
	}
}

func newSite(t *testing.T, tier mount.Tier) *site {
	t.Helper()
	dir := testbed.Dir(t)
	m := mount.New(mount.Config{Tier: tier, StagingDir: dir + "/staging"})
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	s := &site{T: t, m: m, tier: tier, dir: dir}
	for _, name := range []string{"pod", "vol", "outside"} {
		require.NoError(t, os.Mkdir(dir+"/"+name, 0o755))
	}
	s.tmpfs("vol", "mode=3777")
	s.fill("outside/canary")
	return s
}

func (s *site) tmpfs(name, data string) {
	s.Helper()
	require.NoError(s, unix.Mount("tmpfs", s.dir+"/"+name, "tmpfs", 0, data))
	s.Cleanup(func() { _ = unix.Unmount(s.dir+"/"+name, unix.MNT_DETACH) })
}

// fill creates files and directories (names that end in a slash), and their parents.
func (s *site) fill(names ...string) {
	s.Helper()
	testbed.Fill(s, s.dir, names...)
}

func (s *site) link(to, name string) {
	s.Helper()
	require.NoError(s, os.Symlink(to, s.dir+"/vol/"+name))
}

func request(dir, path string) Request {
	return Request{PodDir: dir + "/pod", Volume: "vol", Container: "c", VolumeDir: dir + "/vol", Path: path, Create: true}
}

// request returns a request that creates no directories.
func (s *site) request(path string) Request {
	req := request(s.dir, path)
	req.Create = false
	return req
}

// bind binds and fails the test on an error.
func (s *site) bind(req Request) (target string) {
	s.Helper()
	target, err := Bind(s.Context(), s.m, req)
	require.NoError(s, err)
	require.Equal(s, req.Target(), target)
	return target
}

// bindFails expects an error of Bind, and nothing mounted.
func (s *site) bindFails(req Request, want error) {
	s.Helper()
	target, err := Bind(s.Context(), s.m, req)
	require.ErrorIs(s, err, want)
	require.Empty(s, target)
	require.Empty(s, s.mounts())
}

func (s *site) cleanup() {
	s.Helper()
	require.NoError(s, Cleanup(s.Context(), s.m, s.dir+"/pod", "vol"))
	require.Empty(s, s.mounts())
	require.NoDirExists(s, s.dir+"/pod/"+directoryName)
}

// mounts returns the mount points in the pod's directory.
func (s *site) mounts() (targets []string) {
	s.Helper()
	table, err := s.m.List(context.Background())
	require.NoError(s, err)
	for _, info := range table {
		if strings.HasPrefix(info.Mountpoint, s.dir+"/pod/") {
			targets = append(targets, info.Mountpoint)
		}
	}
	return targets
}

func (s *site) same(a, b string) {
	s.Helper()
	one, err := os.Stat(a)
	require.NoError(s, err)
	other, err := os.Stat(b)
	require.NoError(s, err)
	require.True(s, os.SameFile(one, other), "%s and %s", a, b)
}

// list returns the paths and types of all entries below a directory.
func (s *site) list(name string) (names []string) {
	s.Helper()
	require.NoError(s, filepath.WalkDir(s.dir+"/"+name, func(p string, e fs.DirEntry, err error) error {
		if err == nil {
			names = append(names, strings.TrimPrefix(p, s.dir+"/")+" "+e.Type().String())
		}
		return err
	}))
	return names
}
