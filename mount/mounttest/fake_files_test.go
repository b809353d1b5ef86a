package mounttest_test

import (
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// tree is directories and links in memory, by their paths. A link has a target.
type tree map[string]*node

type node struct {
	fs.FileInfo // nil: nothing else is asked
	target      string
}

func (n *node) Mode() fs.FileMode {
	if n.target != "" {
		return fs.ModeSymlink
	}
	return fs.ModeDir
}

func (t tree) Lstat(name string) (fs.FileInfo, error) {
	if n := t[name]; n != nil {
		return n, nil
	}
	return nil, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
}

func (t tree) Readlink(name string) (string, error) { return t[name].target, nil }

func (t tree) SameFile(a, b fs.FileInfo) bool { return a == b }

// The files of a Fake need not be the system's.
func TestFakeOnFiles(t *testing.T) {
	files := tree{}
	for _, dir := range []string{"/data", "/data/sub", "/target", "/device"} {
		files[dir] = &node{}
	}
	files["/link"] = &node{target: "data"}
	kernel := mounttest.NewFakeOn(mount.Config{}, files)
	bind := mount.Request{Source: "/data", Target: "/target", Options: []string{"ro"}}
	require.NoError(t, kernel.Mount(t.Context(), bind))
	require.NoError(t, kernel.Mount(t.Context(), bind))
	require.NoError(t, kernel.Mount(t.Context(), mount.Request{Source: "/dev/sda", Target: "/device", FSType: "ext4"}))

	real, readOnly, err := kernel.RealPath("/target/sub")
	require.NoError(t, err)
	require.Equal(t, "/data/sub", real)
	require.True(t, readOnly)
	real, _, err = kernel.RealPath("/link/sub")
	require.NoError(t, err)
	require.Equal(t, "/data/sub", real)
	_, err = kernel.IsMountPoint(t.Context(), "/none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	refs, err := kernel.MountRefs(t.Context(), "/target")
	require.NoError(t, err)
	require.Empty(t, refs)

	files["/data"] = &node{} // another one of its name
	place, err := kernel.Resolve(t.Context(), "/target")
	require.NoError(t, err)
	require.True(t, place.Mount.Deleted)
	require.ErrorIs(t, kernel.Mount(t.Context(), bind), mount.ErrMounted)
	require.NoError(t, kernel.Unmount(t.Context(), "/target"))
	delete(files, "/target")
	require.ErrorIs(t, kernel.Mount(t.Context(), bind), fs.ErrNotExist)
}
