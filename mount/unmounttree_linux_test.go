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

// smallFS mounts a tmpfs, without asking whether something is mounted there.
func smallFS(t *testing.T, path string) {
	t.Helper()
	require.NoError(t, unix.Mount("tmpfs", path, "tmpfs", 0, "size=64k"))
}

// mountsBelow counts the mounts at and below a directory, hidden ones, too.
func mountsBelow(t *testing.T, dir string) (n int) {
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

// plantTree mounts 24 file systems at and below top: beside and inside each other,
// on top of each other, and so that one hides others.
func plantTree(t *testing.T, top string) {
	t.Helper()
	smallFS(t, top)
	for i := range 6 {
		path := mkdir(t, fmt.Sprintf("%s/%d", top, i))
		smallFS(t, path)
		inner := mkdir(t, path+"/inner")
		smallFS(t, inner)
		smallFS(t, inner) // on top
	}
	hidden := mkdir(t, top+"/hiding/hidden")
	smallFS(t, hidden)
	smallFS(t, mkdir(t, hidden+"/deep"))
	smallFS(t, top+"/hiding")
	smallFS(t, mkdir(t, top+"/hiding/hidden"))
	smallFS(t, top+"/5") // the whole of what was there
}

func TestUnmountTree(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := mkdirs(t, "below", "below/top", "below/beside")
	top := dir + "/below/top"
	smallFS(t, dir+"/below/beside")
	for _, background := range []bool{true, false} {
		plantTree(t, top)
		require.Equal(t, 24, mountsBelow(t, top))
		ctx, cancel := context.Background(), func() {}
		if !background {
			ctx, cancel = context.WithTimeout(ctx, time.Minute)
		}
		m := mount.New(mount.Config{})
		require.NoError(t, m.UnmountTree(ctx, top))
		require.Zero(t, mountsBelow(t, top))
		require.NoError(t, m.UnmountTree(ctx, top), "nothing is mounted there")
		cancel()
	}
	require.True(t, isMountPoint(t, dir+"/below/beside"))
}

// TestUnmountTreeOfOne: of several mounts at the target the top one goes.
func TestUnmountTreeOfOne(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	top := mkdirs(t, "top") + "/top"
	m := mount.New(mount.Config{})
	smallFS(t, top)
	smallFS(t, mkdir(t, top+"/inner"))
	smallFS(t, top)
	smallFS(t, mkdir(t, top+"/other"))
	require.NoError(t, m.UnmountTree(t.Context(), top))
	require.Equal(t, 2, mountsBelow(t, top))
	require.True(t, isMountPoint(t, top+"/inner"))
	require.NoError(t, m.UnmountTree(t.Context(), top))
	require.Zero(t, mountsBelow(t, top))
}

// TestUnmountTreeBusy: it stops at a mount in use, whose file system answers.
func TestUnmountTreeBusy(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	top := mkdirs(t, "top") + "/top"
	plantTree(t, top)
	leave := busy(t, top+"/3/inner")
	m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: time.Minute}})
	err := m.UnmountTree(t.Context(), top)
	require.ErrorIs(t, err, mount.ErrBusy)
	require.ErrorContains(t, err, top+"/3/inner")
	require.True(t, isMountPoint(t, top+"/3/inner"))
	require.True(t, isMountPoint(t, top+"/0/inner"), "it has begun at the other end")
	require.False(t, isMountPoint(t, top+"/4"))
	leave()
	require.NoError(t, m.UnmountTree(t.Context(), top))
	require.Zero(t, mountsBelow(t, top))
}

// TestUnmountSickTree: one that does not answer, used and idle, in the middle of a
// tree.
func TestUnmountSickTree(t *testing.T) {
	for name, fall := range sicknesses {
		t.Run(name, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			top := mkdirs(t, "top") + "/top"
			plantTree(t, top)
			require.NoError(t, os.Mkdir(top+"/3/sick", 0o755))
			s := fall(t, top+"/3/sick", mkdirs(t))
			if name != "disk" { // a used disk stays, and so does what its device is a file of
				busy(t, s.path)
			}
			m := mount.New(mount.Config{Unmount: mount.UnmountPolicy{Grace: 100 * time.Millisecond}})
			var err error
			within(t, func() {
				for !errors.Is(err, mount.ErrNotEnded) && mountsBelow(t, top) > 0 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					err = m.UnmountTree(ctx, top)
					cancel()
				}
			})
			if name == "disk" {
				require.ErrorIs(t, err, mount.ErrNotEnded)
				s.cure()
			}
			within(t, func() { err = m.UnmountTree(t.Context(), top) })
			require.NoError(t, err)
			require.Zero(t, mountsBelow(t, top))
		})
	}
}
