package subpath

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

func TestBind(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/a/b/file", "vol/a/c/")
		for i, path := range []string{"a/b", "a/b/file", ".", "./a//c/"} {
			req := s.request(path)
			req.Index = i
			for range 2 {
				s.same(s.bind(req), s.dir+"/vol/"+path)
				require.Len(s, s.mounts(), i+1)
			}
		}
		names, err := Volumes(context.Background(), s.dir+"/pod")
		require.NoError(s, err)
		require.Equal(s, []string{"vol"}, names)
		s.cleanup()
		s.cleanup()
		require.FileExists(s, s.dir+"/vol/a/b/file")
		names, err = Volumes(context.Background(), s.dir+"/pod")
		require.NoError(s, err)
		require.Empty(s, names)
	})
}

func TestReadOnly(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/a/file")
		req := s.request("a")
		req.ReadOnly = true
		target := s.bind(req)
		require.ErrorIs(s, os.WriteFile(target+"/new", nil, 0o644), syscall.EROFS)
		require.NoError(s, os.WriteFile(s.dir+"/vol/a/new", nil, 0o644))
		req.ReadOnly = false // the container's mount has changed
		require.NoError(s, os.WriteFile(s.bind(req)+"/new", nil, 0o644))
		require.Len(s, s.mounts(), 1)
		s.cleanup()
	})
}

// TestCreate: created directories have the mode of the volume's directory, for any umask.
func TestCreate(t *testing.T) {
	onEachTier(t, func(s *site) {
		before := unix.Umask(0o077)
		defer unix.Umask(before)
		s.bindFails(s.request("a/b/c"), fs.ErrNotExist)
		require.Len(s, s.list("vol"), 1)
		s.fill("vol/there/")
		for i, path := range []string{"a/b/c", "there/d", "dangling"} {
			if path == "dangling" {
				s.link("there/e/../f", path)
			}
			req := request(s.dir, path)
			req.Index = i
			s.same(s.bind(req), s.dir+"/vol/"+path)
		}
		for name, mode := range map[string]uint32{"a": 0o1777, "a/b": 0o1777, "a/b/c": 0o1777, "there/d": 0o1777, "there/f": 0o1777, "there": 0o700} {
			var x unix.Stat_t
			require.NoError(s, unix.Stat(s.dir+"/vol/"+name, &x))
			require.Equal(s, unix.S_IFDIR|unix.S_ISGID|mode, x.Mode, name)
		}
		s.cleanup()
		require.DirExists(s, s.dir+"/vol/a/b/c")
	})
}

// TestUnfinished: a half-created directory is finished, and no other directory becomes
// accessible.
func TestUnfinished(t *testing.T) {
	onEachTier(t, func(s *site) {
		for name, mode := range map[string]uint32{"begun": 0, "private": 0o700, "locked": 0, "read": 0o400} {
			s.fill("vol/" + name + "/")
			if name == "locked" {
				s.fill("vol/locked/secret")
			}
			require.NoError(s, os.Chmod(s.dir+"/vol/"+name, fs.FileMode(mode)))
			s.bind(request(s.dir, name))
			s.cleanup()
		}
		for name, mode := range map[string]fs.FileMode{"begun": 0o777, "private": 0o700, "locked": 0, "read": 0o400} {
			info, err := os.Stat(s.dir + "/vol/" + name)
			require.NoError(s, err)
			require.Equal(s, mode, info.Mode().Perm(), name)
		}
	})
}

// TestLinks: symbolic links inside the volume are followed, and links out of the volume refused.
func TestLinks(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/real/dir/file", "vol/file")
		s.link("real", "in")
		s.link("../file", "real/up")
		s.link("dir/../dir/./file", "real/winding")
		s.link("in/dir", "chain")
		for path, real := range map[string]string{"in/dir": "real/dir", "in": "real", "real/up": "file", "in/winding": "real/dir/file", "chain/file": "real/dir/file", "in/up": "file"} {
			s.same(s.bind(s.request(path)), s.dir+"/vol/"+real)
			s.cleanup()
		}
		s.link("../outside", "out")
		s.link(s.dir+"/outside", "absolute")
		s.link(s.dir+"/vol/real", "absolutein")
		s.link("..", "real/parent")
		s.link("in/../..", "sneaky")
		s.link("loop", "loop")
		s.link("nothing", "dangling")
		for path, want := range map[string]error{
			"out": ErrEscapes, "out/canary": ErrEscapes, "absolute": ErrEscapes, "absolutein": ErrEscapes, "sneaky": ErrEscapes,
			"sneaky/outside": ErrEscapes, "loop": errTooManyLinks, "dangling": fs.ErrNotExist, "file/x": unix.ENOTDIR, "real/up/x": unix.ENOTDIR,
		} {
			s.bindFails(s.request(path), want)
			if path != "dangling" {
				s.bindFails(request(s.dir, path), want)
			}
		}
		s.same(s.bind(s.request("real/parent")), s.dir+"/vol")
		s.cleanup()
	})
}

// TestChanged: the target shows the current result of the path.
func TestChanged(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/a/file", "vol/b/", "vol/file")
		s.link("a", "current")
		target := s.bind(s.request("current"))
		for _, name := range []string{"b", "file", "a/file", "a"} {
			require.NoError(s, os.Remove(s.dir+"/vol/current"))
			s.link(name, "current")
			require.Equal(s, target, s.bind(s.request("current")))
			s.same(target, s.dir+"/vol/"+name)
			require.Len(s, s.mounts(), 1)
		}
		s.cleanup()
	})
}

// TestSubmounts: mounts inside the volume are refused, hidden or included, as the request says.
func TestSubmounts(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/a/inside/")
		s.tmpfs("vol/a/inside", "")
		s.fill("vol/a/inside/deep/file")
		s.bindFails(s.request("a"), mount.ErrSubmounts)
		s.bindFails(s.request("a/inside"), mount.ErrSubmounts)
		s.bindFails(request(s.dir, "a/inside/new"), mount.ErrSubmounts)
		require.NoDirExists(s, s.dir+"/vol/a/inside/new")

		req := s.request("a")
		req.Submounts = mount.HideSubmounts
		require.NoDirExists(s, s.bind(req)+"/inside/deep")
		s.cleanup()
		req.Submounts = mount.IncludeSubmounts
		for range 2 {
			require.FileExists(s, s.bind(req)+"/inside/deep/file")
			require.Len(s, s.mounts(), 2)
		}
		s.cleanup()
		req.Path = "a/inside/deep"
		s.same(s.bind(req), s.dir+"/vol/a/inside/deep")
		s.cleanup()
	})
}

func TestVolumeDir(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/a/")
		require.NoError(s, os.Symlink("vol", s.dir+"/link"))
		for name, want := range map[string]error{"link": unix.ELOOP, "none": fs.ErrNotExist, "outside/canary": unix.ENOTDIR} {
			req := s.request("a")
			req.VolumeDir = s.dir + "/" + name
			s.bindFails(req, want)
		}
		req := s.request("a")
		req.PodDir = s.dir + "/nopod"
		s.bindFails(req, fs.ErrNotExist)
	})
}

// TestTooDeep: the depth of a path is limited, as each directory costs a descriptor.
func TestTooDeep(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/" + strings.Repeat("d/", maxDepth))
		s.link(strings.Repeat("d/", maxDepth), "deep")
		s.bindFails(request(s.dir, "deep/x"), unix.ENAMETOOLONG)
		s.bind(request(s.dir, strings.Repeat("e/", maxDepth)))
		s.cleanup()
	})
}

func TestEnded(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/a/")
		s.bind(s.request("a"))
		ctx, cancel := context.WithCancelCause(s.Context())
		why := errors.New("why")
		cancel(why)
		_, err := Bind(ctx, s.m, request(s.dir, "b/c"))
		require.ErrorIs(s, err, why)
		require.NoDirExists(s, s.dir+"/vol/b")
		require.ErrorIs(s, Cleanup(ctx, s.m, s.dir+"/pod", "vol"), why)
		require.Len(s, s.mounts(), 1)
		s.cleanup()
	})
}

// TestLeaks: no descriptor stays open after any result.
func TestLeaks(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/a/file")
		s.link("a/../a/./file", "link")
		s.link("../outside", "out")
		round := func() {
			for _, path := range []string{"a", "link", "out", "none", "a/file/x", "n/e/w"} {
				for _, req := range []Request{s.request(path), request(s.dir, path)} {
					_, _ = Bind(s.Context(), s.m, req)
				}
			}
			s.cleanup()
		}
		round()
		check := mounttest.NoLeaks(s.T)
		for range 10 {
			round()
		}
		check()
	})
}

// TestContentStays: Cleanup removes no entry that has content, and cleans up all others.
func TestContentStays(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/a/file")
		s.bind(s.request("a"))
		base := "pod/" + directoryName + "/vol/"
		s.fill(base+"c/7/precious", base+"c/8", base+"d/0/", base+"stray")
		require.NoError(s, os.Symlink(s.dir+"/vol", s.dir+"/"+base+"d/1"))
		s.fill(base + "mounted/")
		s.tmpfs(base+"mounted", "")
		s.fill(base + "mounted/0/")
		err := Cleanup(s.Context(), s.m, s.dir+"/pod", "vol")
		require.ErrorIs(s, err, unix.ENOTEMPTY)
		require.ErrorIs(s, err, errNotOurs)
		require.ErrorIs(s, err, errMounted)
		require.ErrorIs(s, err, unix.ENOTDIR)
		require.ElementsMatch(s, []string{
			base[:len(base)-1] + " d---------", base + "c d---------", base + "c/7 d---------", base + "c/7/precious ----------", base + "c/8 ----------",
			base + "d d---------", base + "d/1 L---------", base + "stray ----------", base + "mounted d---------", base + "mounted/0 d---------",
		}, s.list(base[:len(base)-1]))
		require.FileExists(s, s.dir+"/vol/a/file")
	})
}

// TestStacked: Cleanup unmounts further mounts on a target, too.
func TestStacked(t *testing.T) {
	onEachTier(t, func(s *site) {
		s.fill("vol/a/")
		target := s.bind(s.request("a"))
		for range 3 {
			require.NoError(s, unix.Mount(s.dir+"/outside", target, "", unix.MS_BIND, ""))
		}
		s.cleanup()
		require.FileExists(s, s.dir+"/outside/canary")
	})
}

// TestConcurrent: the containers of a pod start at the same time.
func TestConcurrent(t *testing.T) {
	onEachTier(t, func(s *site) {
		errs := make(chan error)
		const n = 16
		for i := range n {
			go func() {
				req := request(s.dir, fmt.Sprintf("shared/%d", i%3))
				req.Container = fmt.Sprintf("c%d", i%4)
				req.Index = i / 2
				_, err := Bind(s.Context(), s.m, req)
				errs <- err
			}()
		}
		for range n {
			require.NoError(s, <-errs)
		}
		for _, name := range []string{"shared", "shared/0", "shared/1", "shared/2"} {
			info, err := os.Stat(s.dir + "/vol/" + name)
			require.NoError(s, err)
			require.Equal(s, fs.FileMode(0o777), info.Mode().Perm())
		}
		s.cleanup()
	})
}

// TestFakeMounter: the fake mounter works if the volume is a directory.
func TestFakeMounter(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"pod", "vol"} {
		require.NoError(t, os.Mkdir(dir+"/"+name, 0o755))
	}
	m := mounttest.NewFake(mount.Config{})
	target, err := Bind(t.Context(), m, request(dir, "a/b"))
	require.NoError(t, err)
	is, err := m.IsMountPoint(t.Context(), target)
	require.NoError(t, err)
	require.True(t, is)
	require.DirExists(t, dir+"/vol/a/b")
	require.NoError(t, Cleanup(t.Context(), m, dir+"/pod", "vol"))
	is, err = m.IsMountPoint(t.Context(), dir+"/pod")
	require.NoError(t, err)
	require.False(t, is)
	require.NoDirExists(t, dir+"/pod/"+directoryName)
}

// TestUnfinishedOfOthers: Bind does not finish a directory of another user.
func TestUnfinishedOfOthers(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	s := newSite(t, mount.TierAuto)
	s.fill("vol/theirs/")
	require.NoError(t, os.Chmod(s.dir+"/vol/theirs", 0))
	require.NoError(t, os.Chown(s.dir+"/vol/theirs", 4711, 4711))
	s.bind(request(s.dir, "theirs"))
	s.cleanup()
	info, err := os.Stat(s.dir + "/vol/theirs")
	require.NoError(t, err)
	require.Zero(t, info.Mode().Perm())
}
