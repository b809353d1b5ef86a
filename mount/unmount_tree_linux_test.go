package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// mountSmallTmpfs mounts a tmpfs at path, also on top of another mount.
func mountSmallTmpfs(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", path, "tmpfs", 0, "size=64k"))
}

// countMounts counts the mounts at and below a directory, including hidden ones.
func countMounts(t *testing.T, dir string) (n int) {
	t.Helper()
	table, err := mount.New(mount.Config{}).List(t.Context())
	require.NoError(t, err)
	for _, info := range table {
		if info.Mountpoint == dir || len(info.Mountpoint) > len(dir) && info.Mountpoint[:len(dir)+1] == dir+"/" {
			n++
		}
	}
	return n
}

// mountTree mounts 24 file systems at and below top: beside and inside each other,
// on top of each other, and so that one hides others.
func mountTree(t *testing.T, top string) {
	t.Helper()
	mountSmallTmpfs(t, top)
	for i := range 6 {
		path := mkdir(t, fmt.Sprintf("%s/%d", top, i))
		mountSmallTmpfs(t, path)
		inner := mkdir(t, path+"/inner")
		mountSmallTmpfs(t, inner)
		mountSmallTmpfs(t, inner) // on top
	}
	hidden := mkdir(t, top+"/hiding/hidden")
	mountSmallTmpfs(t, hidden)
	mountSmallTmpfs(t, mkdir(t, hidden+"/deep"))
	mountSmallTmpfs(t, top+"/hiding")
	mountSmallTmpfs(t, mkdir(t, top+"/hiding/hidden"))
	mountSmallTmpfs(t, top+"/5") // covers the mounts at and below it
}

func TestUnmountTree(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "below", "below/top", "below/beside")
	top := dir + "/below/top"
	mountSmallTmpfs(t, dir+"/below/beside")
	for _, background := range []bool{true, false} {
		mountTree(t, top)
		require.Equal(t, 24, countMounts(t, top))
		ctx, cancel := context.Background(), func() {}
		if !background {
			ctx, cancel = context.WithTimeout(ctx, time.Minute)
		}
		m := mount.New(mount.Config{})
		require.NoError(t, m.UnmountTree(ctx, top))
		require.Zero(t, countMounts(t, top))
		require.NoError(t, m.UnmountTree(ctx, top), "the path is no mount point")
		cancel()
	}
	require.True(t, isMountPoint(t, dir+"/below/beside"))
}

// TestUnmountTreeOfTopMount: UnmountTree unmounts only the top one of several mounts at a target.
func TestUnmountTreeOfTopMount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	top := mkdirs(t, "top") + "/top"
	m := mount.New(mount.Config{})
	mountSmallTmpfs(t, top)
	mountSmallTmpfs(t, mkdir(t, top+"/inner"))
	mountSmallTmpfs(t, top)
	mountSmallTmpfs(t, mkdir(t, top+"/other"))
	require.NoError(t, m.UnmountTree(t.Context(), top))
	require.Equal(t, 2, countMounts(t, top))
	require.True(t, isMountPoint(t, top+"/inner"))
	require.NoError(t, m.UnmountTree(t.Context(), top))
	require.Zero(t, countMounts(t, top))
}

// TestUnmountTreeBusy: UnmountTree stops at a busy mount whose file system answers.
func TestUnmountTreeBusy(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	top := mkdirs(t, "top") + "/top"
	mountTree(t, top)
	leave := holdBusy(t, top+"/3/inner")
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Minute}})
	err := m.UnmountTree(t.Context(), top)
	require.ErrorIs(t, err, mount.ErrBusy)
	require.ErrorContains(t, err, top+"/3/inner")
	require.True(t, isMountPoint(t, top+"/3/inner"))
	require.True(t, isMountPoint(t, top+"/0/inner"), "later mounts are unmounted first")
	require.False(t, isMountPoint(t, top+"/4"))
	leave()
	require.NoError(t, m.UnmountTree(t.Context(), top))
	require.Zero(t, countMounts(t, top))
}

// TestUnmountTreeWithBrokenFS: UnmountTree unmounts a tree with a broken file system in the
// middle, busy or idle.
func TestUnmountTreeWithBrokenFS(t *testing.T) {
	t.Parallel()
	for name, mountKind := range brokenKinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if !mounttest.RootNamespace(t) {
				return
			}
			top := mkdirs(t, "top") + "/top"
			mountTree(t, top)
			require.NoError(t, os.Mkdir(top+"/3/broken", 0o755))
			s := mountKind(t, top+"/3/broken", mkdirs(t))
			if name != "disk" { // a busy disk stays mounted, and its image keeps the tree busy
				holdBusy(t, s.path)
			}
			m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: 100 * time.Millisecond}})
			var err error
			requireReturns(t, func() {
				for !errors.Is(err, mount.ErrNotEnded) && countMounts(t, top) > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					err = m.UnmountTree(ctx, top)
					cancel()
				}
			})
			if name == "disk" {
				require.ErrorIs(t, err, mount.ErrNotEnded)
				s.repair()
			}
			requireReturns(t, func() { err = m.UnmountTree(t.Context(), top) })
			require.NoError(t, err)
			require.Zero(t, countMounts(t, top))
		})
	}
}
