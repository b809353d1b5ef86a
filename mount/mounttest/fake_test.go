package mounttest_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// A fakeTest is a Fake and some real directories and files to use it with.
type fakeTest struct {
	*mounttest.Fake
	t    *testing.T
	root string
}

func newFakeTest(t *testing.T) fakeTest {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	s := fakeTest{mounttest.NewFake(mount.Config{}), t, root}
	for _, dir := range []string{"source/sub", "target", "other"} {
		require.NoError(t, os.MkdirAll(s.path(dir), 0o755))
	}
	for _, file := range []string{"file", "source/file", "target-file"} {
		require.NoError(t, os.WriteFile(s.path(file), nil, 0o644))
	}
	if err := os.Symlink(s.path("source"), s.path("link")); err != nil {
		t.Skip("cannot create symbolic links:", err)
	}
	return s
}

func (s fakeTest) path(rel string) string { return filepath.Join(s.root, filepath.FromSlash(rel)) }

func (s fakeTest) bind(source, target string, options ...string) error {
	return s.Mount(s.t.Context(), mount.Request{
		Source: s.path(source), Target: s.path(target), Options: options,
	})
}

func (s fakeTest) mount(fsType, source, target string, options ...string) error {
	return s.Mount(s.t.Context(), mount.Request{
		Source: source, Target: s.path(target), FSType: fsType, Options: options,
	})
}

func (s fakeTest) unmount(target string) error { return s.Unmount(s.t.Context(), s.path(target)) }

func (s fakeTest) table() mount.Table {
	list, err := s.List(s.t.Context())
	require.NoError(s.t, err)
	return list
}

// entryAt returns the mount that is visible at a target.
func (s fakeTest) entryAt(target string) mount.Info {
	is, err := s.IsMountPoint(s.t.Context(), s.path(target))
	require.NoError(s.t, err)
	require.True(s.t, is)
	info, ok := s.table().At(tablepath.Of(s.path(target)))
	require.True(s.t, ok)
	return info
}

func TestFakeRefusals(t *testing.T) {
	tests := map[string]struct {
		source, target string
		want           error
	}{
		"missing source":                {"none", "target", fs.ErrNotExist},
		"missing target":                {"source", "none", fs.ErrNotExist},
		"missing parent":                {"source", "none/dir", fs.ErrNotExist},
		"source is a link":              {"link", "target", syscall.ELOOP},
		"source behind a link":          {"link/sub", "target", syscall.ELOOP},
		"target is a link":              {"source", "link", syscall.ELOOP},
		"target behind a link":          {"source", "link/sub", syscall.ELOOP},
		"file on a directory":           {"file", "target", syscall.ENOTDIR},
		"directory on a file":           {"source", "target-file", syscall.ENOTDIR},
		"target below a file":           {"source", "file/dir", syscall.ENOTDIR},
		"file on a file":                {"file", "target-file", nil},
		"directory on its subdirectory": {"source", "source/sub", nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newFakeTest(t)
			err := s.bind(test.source, test.target)
			require.ErrorIs(t, err, test.want)
			if test.want == nil {
				s.entryAt(test.target)
				return
			}
			var mountError *mount.Error
			require.ErrorAs(t, err, &mountError)
			require.Equal(t, mounttest.OpMount, mountError.Op)
			require.Equal(t, errors.Is(err, syscall.ELOOP), strings.Contains(err.Error(), "a symbolic link on the way: FollowLinks"))
			require.Len(t, s.table(), 1)
		})
	}
}

func TestFakeRefusesBadRequests(t *testing.T) {
	s := newFakeTest(t)
	var input *mount.InputError
	require.ErrorAs(t, s.bind("source", "target", "suid"), &input)
	require.Equal(t, "Options[0]", input.Field)
	require.ErrorAs(t, s.Unmount(t.Context(), "relative"), &input)
	_, err := s.IsMountPoint(t.Context(), "/a/../b")
	require.ErrorAs(t, err, &input)
	_, err = s.MountRefs(t.Context(), "")
	require.ErrorAs(t, err, &input)
	require.Len(t, s.table(), 1)

	allowing := fakeTest{mounttest.NewFake(mount.Config{Allow: mount.Allow{SUID: true}}), t, s.root}
	require.NoError(t, allowing.bind("source", "target", "suid"))
	require.Equal(t, mount.NoDev, allowing.entryAt("target").Flags)
}

func TestFakeTableOfBinds(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.bind("source", "target", "ro", "noatime"))
	require.NoError(t, s.bind("target/sub", "other", "relatime", "nosymfollow"))
	require.NoError(t, s.bind("file", "target-file", "rw", "strictatime"))

	const added = mount.NoSUID | mount.NoDev
	real := s.table()[0]
	require.Equal(t, mount.Info{
		ID: 2, Parent: real.ID, Minor: real.Minor,
		Root: tablepath.Of(s.path("source")), Mountpoint: tablepath.Of(s.path("target")),
		Flags:   mount.ReadOnly | mount.NoAtime | added,
		Options: []string{"ro", "nosuid", "nodev", "noatime"},
		FSType:  real.FSType, Source: real.Source, SuperOptions: real.SuperOptions,
	}, s.entryAt("target"))

	other := s.entryAt("other")
	require.Equal(t, tablepath.Of(s.path("source/sub")), other.Root)
	require.Equal(t, mount.ReadOnly|mount.NoSymFollow|added, other.Flags, "some flags are inherited, others changed")
	require.Equal(t, []string{"ro", "nosuid", "nodev", "relatime", "nosymfollow"}, other.Options)
	require.Equal(t, []string{"rw", "nosuid", "nodev"}, s.entryAt("target-file").Options)
}

func TestFakeTableOfFileSystems(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.mount("tmpfs", "tmpfs", "target", "size=1M", "noexec"))
	require.NoError(t, s.mount("tmpfs", "", "other"))
	require.NoError(t, s.mount("ext4", "/dev/a", "source", "ro"))
	require.NoError(t, os.Mkdir(s.path("more"), 0o755))
	require.NoError(t, s.mount("ext4", "/dev/a", "more", "ro"))

	target := s.entryAt("target")
	require.Equal(t, "/", target.Root)
	require.Equal(t, "tmpfs", target.FSType)
	require.Equal(t, []string{"rw", "size=1M"}, target.SuperOptions)
	require.Equal(t, []string{"rw", "nosuid", "nodev", "noexec", "relatime"}, target.Options)
	require.NotEqual(t, target.Minor, s.entryAt("other").Minor)
	require.Empty(t, s.entryAt("other").Source)

	require.Equal(t, []string{"ro"}, s.entryAt("source").SuperOptions)
	require.Equal(t, s.entryAt("source").Minor, s.entryAt("more").Minor, "mounts of one device have one number")
	refs, err := s.MountRefs(t.Context(), s.path("more"))
	require.NoError(t, err)
	require.Equal(t, []string{s.path("source")}, refs)
}

func TestFakeIsIdempotent(t *testing.T) {
	type verb func(s fakeTest) error
	bind := func(source string, options ...string) verb {
		return func(s fakeTest) error { return s.bind(source, "target", options...) }
	}
	file := func(fsType, source string, options ...string) verb {
		return func(s fakeTest) error { return s.mount(fsType, source, "target", options...) }
	}
	tests := map[string]struct {
		first, second verb
		want          error
	}{
		"same bind":             {bind("source", "ro"), bind("source", "ro"), nil},
		"bind, other source":    {bind("source"), bind("other"), mount.ErrMounted},
		"bind, other flags":     {bind("source"), bind("source", "ro"), mount.ErrMounted},
		"same tmpfs":            {file("tmpfs", "a"), file("tmpfs", "a", "size=1M"), nil},
		"tmpfs, other source":   {file("tmpfs", "a"), file("tmpfs", "b"), mount.ErrMounted},
		"tmpfs, other flags":    {file("tmpfs", "a"), file("tmpfs", "a", "ro"), mount.ErrMounted},
		"other type":            {file("tmpfs", "a"), file("ramfs", "a"), mount.ErrMounted},
		"same device":           {file("ext4", "/dev/a"), file("ext4", "/dev/a"), nil},
		"other device":          {file("ext4", "/dev/a"), file("ext4", "/dev/b"), mount.ErrMounted},
		"device, other type":    {file("ext4", "/dev/a"), file("xfs", "/dev/a"), mount.ErrMounted},
		"device, other flags":   {file("ext4", "/dev/a"), file("ext4", "/dev/a", "ro"), mount.ErrMounted},
		"bind on a device":      {file("ext4", "/dev/a"), bind("source"), mount.ErrMounted},
		"file system on a bind": {bind("source"), file("tmpfs", "a"), mount.ErrMounted},
		"device on a bind":      {bind("source"), file("ext4", "/dev/a"), mount.ErrMounted},
		"bind on itself":        {bind("target"), bind("target"), nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newFakeTest(t)
			require.NoError(t, test.first(s))
			before := s.table()
			require.ErrorIs(t, test.second(s), test.want)
			require.Equal(t, before, s.table())
		})
	}
}

// TestFakeOneDeviceTwoNames: a device is compared without the links that name it.
func TestFakeOneDeviceTwoNames(t *testing.T) {
	s := newFakeTest(t)
	link := s.path("by-id")
	require.NoError(t, os.Symlink("/dev/null", link))
	for _, source := range []string{link, "/dev/null", link} {
		require.NoError(t, s.mount("ext4", source, "target"))
	}
	require.ErrorIs(t, s.mount("ext4", "/dev/zero", "target"), mount.ErrMounted)
	require.NoError(t, os.Remove(link))
	require.NoError(t, os.Symlink("/dev/zero", link))
	require.ErrorIs(t, s.mount("ext4", link, "target"), mount.ErrMounted, "the link leads to another device")
	require.NoError(t, s.mount("ext4", "/dev/null", "target"))
	require.Len(t, s.table(), len(newFakeTest(t).table())+1)
}

func TestFakeStacksMounts(t *testing.T) {
	s := newFakeTest(t)
	for _, source := range []string{"source", "other"} {
		require.NoError(t, s.Mount(t.Context(), mount.Request{
			Source: s.path(source), Target: s.path("target"), Stack: true,
		}))
	}
	table := s.table()
	require.Equal(t, table[1].ID, table[2].Parent)
	require.Equal(t, tablepath.Of(s.path("other")), s.entryAt("target").Root)

	require.NoError(t, s.unmount("target"))
	require.Equal(t, tablepath.Of(s.path("source")), s.entryAt("target").Root)
	require.NoError(t, s.unmount("target"))
	require.Len(t, s.table(), 1)
	require.NoError(t, s.bind("other", "target"))
	require.Equal(t, 4, s.entryAt("target").ID, "IDs are not reused")
}

func TestFakeUnmount(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.unmount("source"), "not a mount point")
	require.NoError(t, s.unmount("file"), "not a mount point")
	require.NoError(t, s.unmount("link"), "a symbolic link")
	require.ErrorIs(t, s.unmount("none"), fs.ErrNotExist)
	require.ErrorIs(t, s.unmount("link/sub"), syscall.ELOOP)

	require.NoError(t, s.bind("source", "target"))
	require.NoError(t, s.bind("other", "target/sub"))
	require.ErrorIs(t, s.unmount("target"), syscall.EBUSY)
	require.Len(t, s.table(), 3)
	require.NoError(t, s.unmount("target/sub"))
	require.NoError(t, s.unmount("target"))
	require.Len(t, s.table(), 1)
}

func TestFakeIsMountPoint(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.bind("source", "target"))
	require.NoError(t, s.bind("source", "other/"))
	for p, want := range map[string]bool{
		"target": true, "other": true, "source": false, "file": false, "link": false, "target/sub": false,
	} {
		is, err := s.IsMountPoint(t.Context(), s.path(p))
		require.NoError(t, err, p)
		require.Equal(t, want, is, p)
	}
	require.NoError(t, s.bind("other", "source/sub"))
	is, err := s.IsMountPoint(t.Context(), s.path("link/sub"))
	require.NoError(t, err)
	require.True(t, is, "links on the way are followed")
	is, err = s.IsMountPoint(t.Context(), "/")
	require.NoError(t, err)
	require.True(t, is)
	_, err = s.IsMountPoint(t.Context(), s.path("none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestFakeMountRefs(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.bind("source", "target"))
	require.NoError(t, s.bind("target", "other"))
	for p, want := range map[string][]string{
		"source": {s.path("other"), s.path("target")},
		"target": {s.path("other")},
		"file":   nil,
		"link":   nil,
	} {
		refs, err := s.MountRefs(t.Context(), s.path(p))
		require.NoError(t, err, p)
		require.Equal(t, want, refs, p)
	}
	_, err := s.MountRefs(t.Context(), s.path("none"))
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestFakePathsInsideMounts(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.bind("source", "target"))
	require.NoError(t, s.bind("other", "target/sub"), "sub exists in the source")
	sub := s.entryAt("target/sub")
	require.Equal(t, s.entryAt("target").ID, sub.Parent)
	is, err := s.IsMountPoint(t.Context(), s.path("source/sub"))
	require.NoError(t, err)
	require.False(t, is, "mounts do not propagate")

	require.NoError(t, s.mount("tmpfs", "tmpfs", "source"))
	_, err = s.IsMountPoint(t.Context(), s.path("source/sub"))
	require.ErrorIs(t, err, fs.ErrNotExist, "a fake file system is empty")
	require.NoError(t, s.bind("source", "other"), "a fake file system can be bound")
	require.Equal(t, "tmpfs", s.entryAt("other").FSType)
}

func TestFakeListIsCopy(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.bind("source", "target"))
	table := s.table()
	table[1].Root = "/changed"
	table[1].Options[0] = "changed"
	table[1].SuperOptions[0] = "changed"
	require.NotContains(t, s.entryAt("target").Options, "changed")
	require.NotContains(t, s.entryAt("target").SuperOptions, "changed")
	require.NotEqual(t, "/changed", s.entryAt("target").Root)
}

func TestFakeRealPath(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.bind("source", "target", "ro"))
	require.NoError(t, s.mount("tmpfs", "tmpfs", "other"))
	require.NoError(t, os.Symlink(s.path("target/sub"), s.path("absolute")))
	require.NoError(t, os.Symlink("sub", s.path("source/relative")))
	require.NoError(t, os.Symlink("loop", s.path("loop")))
	tests := map[string]struct {
		want     string
		readOnly bool
		err      error
	}{
		"file":                {"file", false, nil},
		"target":              {"source", true, nil},
		"target/file":         {"source/file", true, nil},
		"target/new":          {"source/new", true, nil},
		"link/file":           {"source/file", false, nil},
		"absolute/new":        {"source/sub/new", true, nil},
		"target/relative/new": {"source/sub/new", true, nil},
		"none/new":            {"", false, fs.ErrNotExist},
		"other":               {"", false, fs.ErrNotExist},
		"other/new":           {"", false, fs.ErrNotExist},
		"loop":                {"", false, syscall.ELOOP},
		"file/new":            {"", false, syscall.ENOTDIR},
	}
	for p, test := range tests {
		real, readOnly, err := s.RealPath(s.path(p))
		require.ErrorIs(t, err, test.err, p)
		if test.err == nil {
			require.Equal(t, s.path(test.want), real, p)
		}
		require.Equal(t, test.readOnly, readOnly, p)
	}
}

func TestFakeReadOnlyFileSystem(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.mount("tmpfs", "tmpfs", "source", "ro"))
	require.ErrorIs(t, s.bind("source", "target", "rw"), mount.ErrNotAsRequested)
	require.NoError(t, s.bind("source", "target"))
	require.Len(t, s.table(), 3)
}

func TestFakeTrailingSlashNeedsDirectory(t *testing.T) {
	s := newFakeTest(t)
	for _, end := range []string{"/", "/.", "/./"} {
		req := mount.Request{Source: s.path("file") + end, Target: s.path("target-file")}
		require.ErrorIs(t, s.Mount(t.Context(), req), syscall.ENOTDIR)
	}
}

func TestFakeNoSymFollow(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, os.Symlink("sub", s.path("source/way")))
	require.NoError(t, os.Mkdir(s.path("source/sub/deep"), 0o755))
	require.NoError(t, s.bind("source", "target", "nosymfollow"))
	_, err := s.IsMountPoint(t.Context(), s.path("source/way/deep"))
	require.NoError(t, err)
	_, err = s.IsMountPoint(t.Context(), s.path("target/way/deep"))
	require.ErrorIs(t, err, syscall.ELOOP)
	_, _, err = s.RealPath(s.path("target/way"))
	require.ErrorIs(t, err, syscall.ELOOP)
}
