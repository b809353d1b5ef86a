package ownership

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// accepting is an OnUnchanged that accepts all, and the entries that it was asked about.
func accepting() (onUnchanged func(string, error) error, accepted func() []string) {
	var mu sync.Mutex
	var all []string
	return func(entry string, _ error) error {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, entry)
			return nil
		}, func() []string {
			mu.Lock()
			defer mu.Unlock()
			return all
		}
}

// TestOnUnchanged: the caller decides about each entry that cannot be changed. What it accepts
// stays, and everything else changes, the directory too.
func TestOnUnchanged(t *testing.T) {
	testbed.Disk{FSType: "ext4", Size: 64 << 20, Options: []string{"-q", "-F"}}.Run(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "a/immutable", "a/file", "b/immutable")
		require.NoError(t, os.Chmod(dir, 0o700))
		for _, name := range []string{"/a/immutable", "/b/immutable"} {
			testbed.Protect(t, dir+name, testbed.Immutable)
			defer testbed.Protect(t, dir+name, 0)
		}
		o := Options{Group: id(7), OnUnchanged: func(entry string, err error) error {
			require.ErrorIs(t, err, unix.EPERM)
			if entry == "b/immutable" {
				return nil
			}
			return fmt.Errorf("refused: %w", err)
		}}
		_, err := Apply(t.Context(), dir, o)
		require.ErrorContains(t, err, "refused")
		require.Equal(t, []string{"a/immutable"}, paths(t, err))
		require.Equal(t, "0:0 40700", describeEntry(t, dir))

		o.OnUnchanged = func(string, error) error { return nil }
		counts, err := Apply(t.Context(), dir, o)
		require.NoError(t, err)
		require.EqualValues(t, 1, counts.Changed)
		require.Equal(t, "0:7 42770", describeEntry(t, dir))
		require.Equal(t, "0:7 100660", describeEntry(t, dir+"/a/file"))
		require.Equal(t, "0:0 100640", describeEntry(t, dir+"/a/immutable"))
	})
}

// TestIgnoredChanges: a file system that reports changes as done and makes none is an error for
// each entry, or accepted by the caller.
func TestIgnoredChanges(t *testing.T) {
	for _, way := range ways() {
		t.Run(way, func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			defer disableFeatures("new")
			disableFeatures(way)
			dir := testbed.Dir(t)
			testbed.MountFUSE(t, dir, testbed.Ignoring)
			testbed.Fill(t, dir, "a/file", "file")
			for _, mode := range []uint32{0o660, 0o600} { // which is right, and which has to change
				require.NoError(t, unix.Chmod(dir+"/file", mode))
				before := describeEntries(t, dir)
				counts, err := Apply(t.Context(), dir, Options{Group: id(7)})
				require.ErrorIs(t, err, ErrIgnored)
				require.ElementsMatch(t, []string{"a", "a/file", "file"}, paths(t, err))
				require.Zero(t, counts.Changed)
				require.EqualValues(t, 4, counts.Seen)
				require.Equal(t, before, describeEntries(t, dir), "no mode for others than the group")
			}
			require.NoError(t, os.RemoveAll(dir+"/a"))
			require.NoError(t, os.Remove(dir+"/file"))
			_, err := Apply(t.Context(), dir, Options{Group: id(7)})
			require.ErrorIs(t, err, ErrIgnored, "of the directory itself")
			var accepted []string
			_, err = Apply(t.Context(), dir, Options{Group: id(7), OnUnchanged: func(entry string, err error) error {
				require.ErrorIs(t, err, ErrIgnored)
				accepted = append(accepted, entry)
				return nil
			}})
			require.NoError(t, err)
			require.Equal(t, []string{"."}, accepted)
			_, err = Apply(t.Context(), dir, Options{Group: id(0)})
			require.NoError(t, err, "nothing of the owner had to change")
		})
	}
}

// TestOnUnchangedIsNotAsked: about a read-only file system, here or on its server, about a group
// that is not mapped, and about a directory of which the rest was not seen.
func TestOnUnchangedIsNotAsked(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		accept, accepted := accepting()
		o := Options{Group: id(7), Workers: 1, OnUnchanged: accept}
		testbed.Fill(t, dir, "ready", "d/file")
		require.NoError(t, os.Chmod(dir+"/ready", 0o660))

		replaceCalls(t, func(int) error { return unix.EROFS })
		_, err := Apply(t.Context(), dir, o)
		require.ErrorIs(t, err, ErrReadOnly)
		require.Empty(t, accepted())

		for _, errno := range []unix.Errno{unix.EINVAL, unix.EOVERFLOW} { // of a namespace, of a mount
			replaceCalls(t, func(int) error { return errno })
			require.NoError(t, os.RemoveAll(dir+"/d"))
			_, err = Apply(t.Context(), dir, o)
			require.ErrorIs(t, err, beneath.ErrUnmapped)
			require.Empty(t, accepted())
		}
	})
}

func TestOnUnchangedIsNotAskedAboutTheUnseen(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		beneath.WithoutHandles = true
		defer func() { beneath.WithoutHandles = false }()
		accept, accepted := accepting()
		testbed.Fill(t, dir, "zlast/y", "elsewhere/", "top/later", "top/later2/x")
		testbed.Deepen(t, dir+"/top", "n", 3*beneath.Window)
		moved := false
		deep := dir + "/top" + strings.Repeat("/n", 2*beneath.Window)
		replaceCalls(t, func(int) error {
			if !moved && strings.HasPrefix(describeEntry(t, deep), "0:7 ") {
				moved = true
				require.NoError(t, unix.Rename(dir+"/top"+strings.Repeat("/n", beneath.Window/2), dir+"/elsewhere/n"))
			}
			return nil
		})
		_, err := Apply(t.Context(), dir, Options{Group: id(7), Workers: 1, OnUnchanged: accept})
		require.True(t, moved)
		require.ErrorIs(t, err, beneath.ErrMoved)
		require.Empty(t, accepted())
		require.Equal(t, "0:0", strings.Fields(describeEntry(t, dir))[0])
	})
}

// TestOnUnchangedAfterTheEnd: nobody is asked after Apply has returned.
func TestOnUnchangedAfterTheEnd(t *testing.T) {
	onEachKernel(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "file")
		ctx, cancel := context.WithCancel(t.Context())
		hold := make(chan struct{})
		replaceCalls(t, func(int) error { cancel(); <-hold; return unix.EIO })
		accept, accepted := accepting()
		_, err := Apply(ctx, dir, Options{Group: id(7), OnUnchanged: accept})
		require.ErrorIs(t, err, context.Canceled)
		close(hold)
		replaceCalls(t, func(int) error { return nil })
		_, err = Apply(t.Context(), dir, Options{Group: id(7)}) // waits for its turn
		require.NoError(t, err)
		require.Empty(t, accepted())
	})
}

// TestReadOnlyPart: a read-only snapshot is an entry that cannot be changed, and does not end the
// work.
func TestReadOnlyPart(t *testing.T) {
	testbed.Disk{FSType: "btrfs", Size: 256 << 20, Options: []string{"-q"}}.Run(t, func(t *testing.T, dir string) {
		testbed.Fill(t, dir, "root/file")
		testbed.Subvolume(t, dir+"/root", "sub")
		testbed.Fill(t, dir, "root/sub/x")
		testbed.Snapshot(t, dir+"/root/sub", dir+"/root", "snapshot")
		_, err := Apply(t.Context(), dir+"/root", Options{Group: id(7)})
		require.ElementsMatch(t, []string{"snapshot", "snapshot/x"}, paths(t, err))
		require.ErrorIs(t, err, unix.EROFS)
		require.False(t, errors.Is(err, ErrReadOnly))
		accept, accepted := accepting()
		_, err = Apply(t.Context(), dir+"/root", Options{Group: id(7), OnUnchanged: accept})
		require.NoError(t, err)
		require.ElementsMatch(t, []string{"snapshot", "snapshot/x"}, accepted())
		require.Equal(t, "0:7 100660", describeEntry(t, dir+"/root/sub/x"))
		require.Equal(t, "0:7 42775", describeEntry(t, dir+"/root"))
	})
}

// TestImmutableDirectory: the caller decides about the directory itself, with and without
// set-group-ID, which is cleared before the first change.
func TestImmutableDirectory(t *testing.T) {
	testbed.Disk{FSType: "ext4", Size: 64 << 20, Options: []string{"-q", "-F"}}.Run(t, func(t *testing.T, dir string) {
		for _, mode := range []uint32{0o755, 0o2775} {
			name := fmt.Sprintf("%s/%o", dir, mode)
			testbed.Fill(t, name, "file")
			require.NoError(t, unix.Chmod(name, mode))
			testbed.Protect(t, name, testbed.Immutable)
			defer testbed.Protect(t, name, 0)
			_, err := Apply(t.Context(), name, Options{Group: id(7)})
			require.ErrorIs(t, err, unix.EPERM)
			accept, accepted := accepting()
			_, err = Apply(t.Context(), name, Options{Group: id(7), OnUnchanged: accept})
			require.NoError(t, err)
			require.Subset(t, []string{".", "."}, accepted())
			require.NotEmpty(t, accepted())
			require.Equal(t, "0:7 100660", describeEntry(t, name+"/file"))
		}
	})
}

// TestWithoutSetGroupID: a file system that shows one group and no set-group-ID is no error for
// that group.
func TestWithoutSetGroupID(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	dir := testbed.Dir(t)
	testbed.MountFUSE(t, dir, testbed.Cold)
	testbed.Fill(t, dir, "a/file")
	for _, name := range []string{"", "/a", "/a/file"} {
		require.NoError(t, unix.Lchown(dir+name, 0, 7))
		require.NoError(t, unix.Chmod(dir+name, 0o770))
	}
	fchmodat = func(int, string, uint32, int) error { return nil }
	defer func() { fchmodat = unix.Fchmodat }()
	_, err := Apply(t.Context(), dir, Options{Group: id(7)})
	require.NoError(t, err)
	require.NoError(t, unix.Chmod(dir+"/a", 0o750))
	_, err = Apply(t.Context(), dir, Options{Group: id(7)})
	require.ErrorIs(t, err, ErrIgnored, "the group may not write")
	require.Equal(t, []string{"a"}, paths(t, err))
}
