package util_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
)

func ExampleUnmountMountPoint() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	mounter := mounttest.NewFake(mount.Config{}) // mount.New(mount.Config{}) for real
	err = util.UnmountMountPoint(context.Background(), mounter, dir)
	_, statErr := os.Stat(dir)
	fmt.Println(err, os.IsNotExist(statErr))
	// Output: <nil> true
}

// onEach runs a test on the in-memory kernel and on the real one.
func onEach(t *testing.T, test func(t *testing.T, m mount.Interface)) {
	t.Run("fake", func(t *testing.T) { test(t, mounttest.NewFake(mount.Config{})) })
	t.Run("real", func(t *testing.T) {
		if mounttest.Namespace(t) {
			test(t, mount.New(mount.Config{}))
		}
	})
}

func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return dir
}

func mkdir(t *testing.T, elem ...string) string {
	t.Helper()
	dir := filepath.Join(elem...)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	return dir
}

func bind(t *testing.T, m mount.Interface, source, target string) {
	t.Helper()
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: source, Target: target, Stack: true}))
	t.Cleanup(func() {
		_ = util.UnmountMountPoint(context.Background(), m, target, util.KeepDirectory())
	})
}

func TestUnmountMountPoint(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		dir := tempDir(t)
		source, target := mkdir(t, dir, "source"), filepath.Join(dir, "target")
		precious := filepath.Join(source, "precious")
		require.NoError(t, os.WriteFile(precious, nil, 0o600))

		require.NoError(t, util.UnmountPath(t.Context(), m, target), "missing: nothing to do")
		require.NoError(t, util.UnmountPath(t.Context(), m, target+"/deeper"))

		mkdir(t, target)
		require.NoError(t, util.UnmountPath(t.Context(), m, target), "not a mount point: removed")
		require.NoDirExists(t, target)

		mkdir(t, target)
		for range 3 {
			bind(t, m, source, target)
		}
		require.NoError(t, util.UnmountMountPoint(t.Context(), m, target, util.KeepDirectory()))
		require.DirExists(t, target)
		bind(t, m, source, target)
		bind(t, m, source, target)
		require.NoError(t, util.UnmountPath(t.Context(), m, target), "all of the stack")
		require.NoDirExists(t, target)
		require.FileExists(t, precious)
	})
}

func TestUnmountRemovesNothingElse(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		dir := tempDir(t)
		full := mkdir(t, dir, "full")
		require.NoError(t, os.WriteFile(full+"/data", nil, 0o600))
		require.ErrorIs(t, util.UnmountPath(t.Context(), m, full), syscall.ENOTEMPTY)
		require.FileExists(t, full+"/data")

		file := filepath.Join(dir, "file")
		require.NoError(t, os.WriteFile(file, nil, 0o600))
		require.ErrorIs(t, util.UnmountPath(t.Context(), m, file), syscall.ENOTDIR)
		require.FileExists(t, file)

		victim := mkdir(t, dir, "victim/empty")
		require.NoError(t, os.Symlink(filepath.Dir(victim), dir+"/way"))
		require.NoError(t, os.Symlink(victim, dir+"/link"))
		require.Error(t, util.UnmountPath(t.Context(), m, dir+"/way/empty"))
		require.Error(t, util.UnmountPath(t.Context(), m, dir+"/link"))
		require.DirExists(t, victim)
		require.Error(t, util.UnmountPath(t.Context(), m, "relative"))
		require.Error(t, util.UnmountPath(t.Context(), m, "/"))
	})
}

func TestUnmountBusy(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		dir := tempDir(t)
		source, target := mkdir(t, dir, "source"), mkdir(t, dir, "target")
		mkdir(t, source, "inner")
		bind(t, m, source, target)
		bind(t, m, source, target+"/inner")
		for _, path := range []string{target, target + "/"} {
			err := util.UnmountPath(t.Context(), m, path)
			require.ErrorIs(t, err, syscall.EBUSY)
			require.ErrorContains(t, err, "a mount is inside, at "+strconv.Quote(target+"/inner"))
		}
		require.DirExists(t, source+"/inner")
	})
}

// TestUnmountFailedCheck: whichever call fails, nothing is removed before it is certain that
// nothing is mounted.
func TestUnmountFailedCheck(t *testing.T) {
	failure := errors.New("injected")
	for _, fault := range []mounttest.Fault{
		{Op: mounttest.OpIsMountPoint, Err: failure},
		{Op: mounttest.OpIsMountPoint, Err: syscall.EACCES},
		{Op: mounttest.OpUnmount, Err: failure},
		{Op: mounttest.OpUnmount, Err: failure, After: true},
	} {
		m := mounttest.NewFake(mount.Config{})
		dir := tempDir(t)
		source, target := mkdir(t, dir, "source"), mkdir(t, dir, "target")
		bind(t, m, source, target)
		m.Inject(fault)
		require.ErrorIs(t, util.UnmountPath(t.Context(), m, target), fault.Err)
		require.DirExists(t, target)
		m.ClearFaults()
		require.NoError(t, util.UnmountPath(t.Context(), m, target), "the next call finishes it")
		require.NoDirExists(t, target)
	}
}

func TestUnmountEndedContext(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		dir := tempDir(t)
		source, target := mkdir(t, dir, "source"), mkdir(t, dir, "target")
		bind(t, m, source, target)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, util.UnmountPath(ctx, m, target), context.Canceled)
		is, err := m.IsMountPoint(t.Context(), target)
		require.NoError(t, err)
		require.True(t, is)
	})
}

// unmounter is a mounter with another Unmount.
type unmounter struct {
	mount.Interface
	unmount func(ctx context.Context, target string) error
}

func (u unmounter) Unmount(ctx context.Context, target string) error { return u.unmount(ctx, target) }

// stacked mounts several times on one directory.
func stacked(t *testing.T, m mount.Interface, mounts int) (target string) {
	dir := tempDir(t)
	source, target := mkdir(t, dir, "source"), mkdir(t, dir, "target")
	for range mounts {
		bind(t, m, source, target)
	}
	return target
}

// TestUnmountErrorKind: the error says whether a mount has been unmounted.
func TestUnmountErrorKind(t *testing.T) {
	failure := errors.New("injected")
	for times, part := range map[int]bool{1: false, 2: true} {
		m := mounttest.NewFake(mount.Config{})
		target := stacked(t, m, 2)
		calls := 0
		err := util.UnmountPath(t.Context(), unmounter{m, func(ctx context.Context, target string) error {
			if calls++; calls == times {
				return failure
			}
			return m.Unmount(ctx, target)
		}}, target)
		require.ErrorIs(t, err, failure)
		require.Equal(t, part, errors.Is(err, util.ErrPartlyUnmounted))
	}
	m := mounttest.NewFake(mount.Config{})
	target := stacked(t, m, 1)
	require.NoError(t, os.WriteFile(target+"/stray", nil, 0o600))
	err := util.UnmountPath(t.Context(), m, target)
	require.ErrorIs(t, err, syscall.ENOTEMPTY)
	require.ErrorIs(t, err, util.ErrPartlyUnmounted)
	err = util.UnmountPath(t.Context(), m, target)
	require.ErrorIs(t, err, syscall.ENOTEMPTY)
	require.NotErrorIs(t, err, util.ErrPartlyUnmounted, "nothing was mounted any more")
}

// TestUnmountChecksContext: the context is checked before each of the mounts.
func TestUnmountChecksContext(t *testing.T) {
	m := mounttest.NewFake(mount.Config{})
	target := stacked(t, m, 2)
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := util.UnmountPath(ctx, unmounter{m, func(_ context.Context, target string) error {
		calls++
		cancel()
		return m.Unmount(t.Context(), target)
	}}, target)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, util.ErrPartlyUnmounted)
	require.Equal(t, 1, calls)
	is, err := m.IsMountPoint(t.Context(), target)
	require.NoError(t, err)
	require.True(t, is, "the other stays")
}

// TestUnmountOfAMissingPath: a mounter reports that the path is missing, and that it is
// mounted.
func TestUnmountOfAMissingPath(t *testing.T) {
	m := mounttest.NewFake(mount.Config{})
	target := stacked(t, m, 1)
	calls := 0
	err := util.UnmountPath(t.Context(), unmounter{m, func(context.Context, string) error {
		calls++
		return syscall.ENOENT
	}}, target)
	require.ErrorIs(t, err, syscall.ENOENT)
	require.Equal(t, 1, calls)
	require.DirExists(t, target)
}

func TestUnmountRetriesBusyMount(t *testing.T) {
	m := mounttest.NewFake(mount.Config{})
	target := stacked(t, m, 1)
	m.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Err: syscall.EBUSY, Times: 5})
	require.NoError(t, util.UnmountPath(t.Context(), m, target))
	require.NoDirExists(t, target)

	target = stacked(t, m, 1)
	m.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Err: syscall.EBUSY})
	err := util.UnmountPath(t.Context(), m, target)
	require.ErrorIs(t, err, syscall.EBUSY)
	require.NotErrorIs(t, err, util.ErrPartlyUnmounted)

	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err = util.UnmountPath(ctx, unmounter{m, func(context.Context, string) error {
		calls++
		cancel()
		return syscall.EBUSY
	}}, target)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, syscall.EBUSY)
	require.Equal(t, 1, calls)
}

// idleUnmounter is a mounter whose Unmount succeeds and does nothing.
type idleUnmounter struct{ mount.Interface }

func (idleUnmounter) Unmount(context.Context, string) error { return nil }

func TestUnmountVerifies(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes 65536 calls")
	}
	m := mounttest.NewFake(mount.Config{})
	dir := tempDir(t)
	source, target := mkdir(t, dir, "source"), mkdir(t, dir, "target")
	bind(t, m, source, target)
	require.ErrorContains(t, util.UnmountPath(t.Context(), idleUnmounter{m}, target), "still mounted")
	require.DirExists(t, target)
}

func TestRemoveEmptyParents(t *testing.T) {
	root := tempDir(t)
	deep := mkdir(t, root, "pods/1/volumes/p")
	mkdir(t, root, "pods/2")
	require.NoError(t, util.RemoveEmptyParents(t.Context(), root, deep+"/v"))
	require.NoDirExists(t, root+"/pods/1")
	require.DirExists(t, root+"/pods/2", "somebody else's stays, and what holds it")
	require.NoError(t, util.RemoveEmptyParents(t.Context(), root, deep+"/v"), "missing ones are no error")
	require.NoError(t, util.RemoveEmptyParents(t.Context(), root, root+"/pods"))
	require.DirExists(t, root+"/pods/2")
	for _, name := range []string{root, "/", "", root + "/../x", filepath.Dir(root)} {
		require.Error(t, util.RemoveEmptyParents(t.Context(), root, name), "%q", name)
	}
}

// neverEnds is a mounter whose file systems do not end when they are unmounted.
type neverEnds struct{ mount.Interface }

func (m neverEnds) Unmount(ctx context.Context, target string) error {
	if err := m.Interface.Unmount(context.WithoutCancel(ctx), target); err != nil {
		return err
	}
	return &mount.Error{Op: "unmount", Target: target, Err: fmt.Errorf("%w: %w", mount.ErrNotEnded, context.DeadlineExceeded)}
}

// TestUnmountNotEnded: a file system that has not ended is unmounted, and the caller decides
// whether that is enough.
func TestUnmountNotEnded(t *testing.T) {
	onEach(t, func(t *testing.T, real mount.Interface) {
		dir := tempDir(t)
		m, source, target := neverEnds{real}, mkdir(t, dir, "source"), mkdir(t, dir, "target")
		bind(t, real, source, target)
		err := util.UnmountMountPoint(t.Context(), m, target)
		require.ErrorIs(t, err, mount.ErrNotEnded)
		require.ErrorIs(t, err, util.ErrPartlyUnmounted)
		require.DirExists(t, target)

		bind(t, real, source, target)
		require.NoError(t, util.UnmountMountPoint(t.Context(), m, target, util.EndLater()))
		require.NoDirExists(t, target)

		mkdir(t, target)
		bind(t, real, source, target)
		bind(t, real, source, target)
		err = util.UnmountMountPoint(t.Context(), m, target, util.EndLater())
		require.ErrorIs(t, err, util.ErrPartlyUnmounted, "another mount is left")
		require.NoError(t, util.UnmountMountPoint(t.Context(), real, target))
	})
}

// TestUnmountWithSubmounts: mounts inside are unmounted, too, if all of them may be.
func TestUnmountWithSubmounts(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		dir := tempDir(t)
		source, target := mkdir(t, dir, "source"), mkdir(t, dir, "target")
		mkdir(t, dir, "source/one")
		mkdir(t, dir, "source/two")
		bind(t, m, source, target)
		bind(t, m, source, target+"/one")
		bind(t, m, source, target+"/two")
		only := func(names ...string) util.UnmountOption {
			return util.WithSubmounts(func(info mount.Info) bool {
				return slices.Contains(names, filepath.Base(info.Mountpoint))
			})
		}
		require.ErrorIs(t, util.UnmountMountPoint(t.Context(), m, target), mount.ErrBusy)
		require.ErrorIs(t, util.UnmountMountPoint(t.Context(), m, target, only("one")), mount.ErrBusy)
		require.ErrorIs(t, util.UnmountMountPoint(t.Context(), m, target, only("two")), mount.ErrBusy)
		require.NoError(t, util.UnmountMountPoint(t.Context(), m, target+"/", only("one", "two")))
		require.NoDirExists(t, target)
	})
}

// A stoppingMounter fails in UnmountTree, after it has unmounted a mount inside or before.
type stoppingMounter struct {
	mount.Interface
	unmounts string // a path
}

func (m stoppingMounter) UnmountTree(ctx context.Context, _ string) error {
	if m.unmounts != "" {
		if err := m.Unmount(ctx, m.unmounts); err != nil {
			return err
		}
	}
	return mount.ErrBusy
}

// TestUnmountStopsAmongSubmounts: the error says whether a mount inside was unmounted.
func TestUnmountStopsAmongSubmounts(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		dir := tempDir(t)
		source, target := mkdir(t, dir, "source"), mkdir(t, dir, "target")
		mkdir(t, dir, "source/one")
		bind(t, m, source, target)
		bind(t, m, source, target+"/one")
		all := util.WithSubmounts(func(mount.Info) bool { return true })
		for _, unmounts := range []string{"", target + "/one"} {
			err := util.UnmountMountPoint(t.Context(), stoppingMounter{m, unmounts}, target, all)
			require.ErrorIs(t, err, mount.ErrBusy)
			require.Equal(t, unmounts != "", errors.Is(err, util.ErrPartlyUnmounted))
		}
		require.NoError(t, util.UnmountMountPoint(t.Context(), m, target))
	})
}

// TestUnmountIsolated: peers of the mounts inside stay, or the path stays busy.
func TestUnmountIsolated(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		dir := tempDir(t)
		source, target, other := mkdir(t, dir, "source"), mkdir(t, dir, "target"), mkdir(t, dir, "other")
		mkdir(t, source, "inner")
		all := util.WithSubmounts(func(mount.Info) bool { return true })
		spread := func(how mount.Propagation, source, target string) {
			require.NoError(t, m.Mount(t.Context(), mount.Request{
				Source: source, Target: target, Stack: true, Propagation: how, Submounts: mount.IncludeSubmounts,
			}))
			t.Cleanup(func() { _ = m.UnmountTree(context.Background(), target) })
		}
		requireMounted := func(path string, want bool) {
			t.Helper()
			is, err := m.IsMountPoint(t.Context(), path)
			require.NoError(t, err)
			require.Equal(t, want, is)
		}
		spread(mount.PropagationShared, source, source)
		spread(mount.PropagationShared, source, target)
		bind(t, m, other, source+"/inner")
		requireMounted(target+"/inner", true)

		plain := struct{ mount.Interface }{m}
		err := util.UnmountMountPoint(t.Context(), plain, target, all, util.Isolated(), util.KeepDirectory())
		require.ErrorIs(t, err, syscall.EBUSY)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		requireMounted(target+"/inner", true)

		wrapped := testbed.Wrapped{Interface: m}
		require.NoError(t, util.UnmountMountPoint(t.Context(), wrapped, target, all, util.Isolated(), util.KeepDirectory()))
		requireMounted(target, false)
		requireMounted(source+"/inner", true)

		spread(mount.PropagationSlave, source, target)
		require.NoError(t, util.UnmountMountPoint(t.Context(), plain, target, all, util.Isolated()), "nobody shares what is in it")
		requireMounted(source+"/inner", true)
	})
}
