package mounttest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
)

// TestInterface is the contract of mount.Interface: each sentence of its
// documentation as a test. NewMounter returns a mounter that knows of no mount
// below a new temporary directory; it is called once for each test.
//
// A mounter that is no [Fake] is taken for a real one: the test writes through
// its mounts. It then has to run where it may mount, see [Namespace].
func TestInterface(t *testing.T, newMounter func(t *testing.T, config mount.Config) mount.Interface) {
	for name, test := range map[string]func(*contract){
		"Bind":                 (*contract).bind,
		"BindFile":             (*contract).bindFile,
		"ReadOnly":             (*contract).readOnly,
		"Flags":                (*contract).flags,
		"FlagsAreInherited":    (*contract).flagsAreInherited,
		"SUIDAndDev":           (*contract).suidAndDev,
		"Tmpfs":                (*contract).tmpfs,
		"EmptySource":          (*contract).emptySource,
		"Idempotent":           (*contract).idempotent,
		"IdempotentTmpfs":      (*contract).idempotentTmpfs,
		"IdempotentData":       (*contract).idempotentData,
		"SomethingElseMounted": (*contract).somethingElse,
		"PartOfFileSystem":     (*contract).partOfFileSystem,
		"Stack":                (*contract).stack,
		"UnmountNothing":       (*contract).unmountNothing,
		"UnmountBusy":          (*contract).unmountBusy,
		"NoLinks":              (*contract).noLinks,
		"Missing":              (*contract).missing,
		"DirectoryOrFile":      (*contract).directoryOrFile,
		"BadInput":             (*contract).badInput,
		"Root":                 (*contract).root,
		"StrangeNames":         (*contract).strangeNames,
		"Refs":                 (*contract).refs,
		"RefsOfHidden":         (*contract).refsOfHidden,
		"Deleted":              (*contract).deleted,
		"DeletedFile":          (*contract).deletedFile,
		"EndedContext":         (*contract).endedContext,
		"Concurrent":           (*contract).concurrent,
		"QueriesBesideChanges": (*contract).queriesBesideChanges,
	} {
		t.Run(name, func(t *testing.T) {
			test(newContract(t, newMounter))
		})
	}
}

// A contract is one test of the contract.
type contract struct {
	*testing.T
	new  func(config mount.Config) mount.Interface
	m    mount.Interface
	fake *Fake // nil: real mounts
	dir  string
}

func newContract(t *testing.T, newMounter func(*testing.T, mount.Config) mount.Interface) *contract {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := &contract{T: t, dir: dir}
	c.new = func(config mount.Config) mount.Interface { return newMounter(t, config) }
	c.m = c.new(mount.Config{})
	c.fake, _ = c.m.(*Fake)
	return c
}

// path returns the path of a name in the test's directory.
func (c *contract) path(name string) string { return filepath.Join(c.dir, name) }

// mkdir makes a directory with one file, named after it, and returns its path.
func (c *contract) mkdir(name string) string {
	c.Helper()
	dir := c.path(name)
	require.NoError(c, os.MkdirAll(dir, 0o755))
	c.Cleanup(func() { c.unmountAll(dir) })
	return dir
}

func (c *contract) unmountAll(target string) {
	for range 8 {
		if is, err := c.m.IsMountPoint(context.Background(), target); err != nil || !is {
			return
		}
		_ = c.m.Unmount(context.Background(), target)
	}
}

func (c *contract) mount(req mount.Request) {
	c.Helper()
	require.NoError(c, c.m.Mount(c.Context(), req))
}

func (c *contract) unmount(target string) {
	c.Helper()
	require.NoError(c, c.m.Unmount(c.Context(), target))
}

// at returns the lines of the mount table for a mount point, top last.
func (c *contract) at(target string) []mount.Info {
	c.Helper()
	table, err := c.m.List(c.Context())
	require.NoError(c, err)
	return slices.DeleteFunc(slices.Clone(table), func(i mount.Info) bool { return i.Mountpoint != target })
}

func (c *contract) isMountPoint(target string, want bool) {
	c.Helper()
	is, err := c.m.IsMountPoint(c.Context(), target)
	require.NoError(c, err)
	require.Equal(c, want, is, "is a mount point: %s", target)
	require.Equal(c, want, len(c.at(target)) > 0, "in the table: %s", target)
}

// write writes a file at a path that may be in a mount.
func (c *contract) write(name string) error {
	if c.fake == nil {
		return os.WriteFile(name, []byte("x"), 0o644)
	}
	real, readOnly, err := c.fake.RealPath(name)
	if err == nil && readOnly {
		err = syscall.EROFS
	}
	if err != nil {
		return err
	}
	return os.WriteFile(real, []byte("x"), 0o644)
}

func (c *contract) exists(name string) {
	c.Helper()
	_, err := os.Lstat(name)
	require.NoError(c, err)
}

// fails runs a call that must fail with target and leave the table as it was.
func (c *contract) fails(want error, call func() error) error {
	c.Helper()
	before, err := c.m.List(c.Context())
	require.NoError(c, err)
	failure := call()
	require.ErrorIs(c, failure, want)
	after, err := c.m.List(c.Context())
	require.NoError(c, err)
	require.Equal(c, before, after, "a failed call has changed the mount table")
	return failure
}

func (c *contract) bind() {
	source, target := c.mkdir("source"), c.mkdir("target")
	c.isMountPoint(target, false)
	c.mount(mount.Request{Source: source, Target: target})
	c.isMountPoint(target, true)
	c.isMountPoint(source, false)
	require.NoError(c, c.write(filepath.Join(target, "file")))
	c.exists(filepath.Join(source, "file"))
	require.Len(c, c.at(target), 1)
	require.Zero(c, c.at(target)[0].Flags&mount.ReadOnly)

	c.unmount(target)
	c.isMountPoint(target, false)
	c.exists(filepath.Join(source, "file"))
}

func (c *contract) bindFile() {
	source, target := c.path("source"), c.path("target")
	require.NoError(c, os.WriteFile(source, nil, 0o644))
	require.NoError(c, os.WriteFile(target, nil, 0o644))
	c.Cleanup(func() { c.unmountAll(target) })
	c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}})
	c.isMountPoint(target, true)
	require.ErrorIs(c, c.write(target), syscall.EROFS)
	require.NoError(c, c.write(source))
	c.unmount(target)
	c.isMountPoint(target, false)
}

func (c *contract) readOnly() {
	source, target := c.mkdir("source"), c.mkdir("target")
	c.mount(mount.Request{Source: source, Target: target, Options: []string{"ro"}})
	require.ErrorIs(c, c.write(filepath.Join(target, "file")), syscall.EROFS)
	require.NotZero(c, c.at(target)[0].Flags&mount.ReadOnly)
	require.NoError(c, c.write(filepath.Join(source, "file")), "the source stays writable")

	fs := c.mkdir("tmpfs")
	c.mount(mount.Request{Source: "tmpfs", Target: fs, FSType: "tmpfs", Options: []string{"ro"}})
	require.NotZero(c, c.at(fs)[0].Flags&mount.ReadOnly)
}

// unlocked returns a directory whose mount may get any flag: what a user
// namespace has inherited keeps its own (mount_namespaces(7)).
func (c *contract) unlocked() string {
	c.Helper()
	dir := c.mkdir("unlocked")
	if c.fake == nil {
		c.mount(mount.Request{Source: "tmpfs", Target: dir, FSType: "tmpfs"})
	}
	return c.mkdir("unlocked/source")
}

func (c *contract) flags() {
	source := c.unlocked()
	safe := mount.NoSUID | mount.NoDev
	for _, test := range []struct {
		options []string
		want    mount.Flags
	}{
		{nil, safe},
		{[]string{"rw", "relatime"}, safe},
		{[]string{"nosuid", "nodev", "noexec"}, safe | mount.NoExec},
		{[]string{"ro", "noatime", "nodiratime"}, safe | mount.ReadOnly | mount.NoAtime | mount.NoDirAtime},
		{[]string{"strictatime"}, safe | mount.StrictAtime},
		{[]string{"nosymfollow", "_netdev", "nofail"}, safe | mount.NoSymFollow},
	} {
		target := c.mkdir("target")
		for _, req := range []mount.Request{
			{Source: source, Target: target, Options: test.options},
			{Source: "tmpfs", Target: target, FSType: "tmpfs", Options: test.options},
		} {
			c.mount(req)
			require.Equal(c, test.want.String(), c.at(target)[0].Flags.String(), "%+v", req)
			c.unmount(target)
		}
	}
}

func (c *contract) flagsAreInherited() {
	source, first, second := c.unlocked(), c.mkdir("first"), c.mkdir("second")
	c.mount(mount.Request{Source: source, Target: first, Options: []string{"ro", "noexec", "noatime"}})
	c.mount(mount.Request{Source: first, Target: second})
	require.Equal(c, c.at(first)[0].Flags.String(), c.at(second)[0].Flags.String())
	c.mount(mount.Request{Source: first, Target: second}) // the same again
	require.Len(c, c.at(second), 1)
	c.unmount(second)

	c.mount(mount.Request{Source: first, Target: second, Options: []string{"rw", "exec", "relatime"}})
	require.Equal(c, (mount.NoSUID | mount.NoDev).String(), c.at(second)[0].Flags.String())
	require.NoError(c, c.write(filepath.Join(second, "file")))
	require.ErrorIs(c, c.write(filepath.Join(first, "file")), syscall.EROFS)
}

func (c *contract) suidAndDev() {
	source, target := c.mkdir("source"), c.mkdir("target")
	for _, option := range []string{"suid", "dev"} {
		c.refuses("Options[0]", mount.Request{Source: source, Target: target, Options: []string{option}})
	}
	c.m = c.new(mount.Config{Allow: mount.Allow{SUID: true, Dev: true}})
	fs := mount.Request{Source: "tmpfs", Target: target, FSType: "tmpfs", Options: []string{"suid", "dev"}}
	c.mount(fs)
	require.Equal(c, "rw", c.at(target)[0].Flags.String())
}

func (c *contract) tmpfs() {
	target := c.mkdir("target")
	c.mount(mount.Request{Source: "some name", Target: target, FSType: "tmpfs", Options: []string{"size=1m", "mode=700"}})
	info := c.at(target)[0]
	require.Equal(c, "tmpfs", info.FSType)
	require.Equal(c, "some name", info.Source)
	require.Equal(c, "/", info.Root)
	c.unmount(target)
	c.isMountPoint(target, false)
}

func (c *contract) emptySource() {
	target, other := c.mkdir("target"), c.mkdir("other")
	c.mount(mount.Request{Target: target, FSType: "tmpfs"})
	c.mount(mount.Request{Source: c.mkdir("source"), Target: other})
	require.Len(c, c.at(target), 1)
	require.Empty(c, c.at(target)[0].Source)
	require.Equal(c, "tmpfs", c.at(target)[0].FSType)
	require.Len(c, c.at(other), 1, "what comes after it in the table")
	c.unmount(target)
}

func (c *contract) idempotent() {
	source, target := c.mkdir("source"), c.mkdir("target")
	for _, options := range [][]string{nil, {"ro", "noexec"}} {
		for range 3 {
			c.mount(mount.Request{Source: source, Target: target, Options: options})
			require.Len(c, c.at(target), 1)
		}
		c.unmount(target)
		for range 3 {
			c.unmount(target)
			c.isMountPoint(target, false)
		}
	}
}

func (c *contract) idempotentTmpfs() {
	target := c.mkdir("target")
	for range 3 {
		c.mount(mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: []string{"size=1m", "ro"}})
		require.Len(c, c.at(target), 1)
	}
	for _, req := range []mount.Request{
		{Source: "b", Target: target, FSType: "tmpfs", Options: []string{"ro"}},
		{Source: "a", Target: target, FSType: "tmpfs"},
		{Source: c.mkdir("source"), Target: target},
	} {
		c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), req) })
	}
}

// Options for the file system are not compared: what it makes of them is not
// told in their words.
func (c *contract) idempotentData() {
	target := c.mkdir("target")
	for _, data := range [][]string{{"size=1m", "mode=700"}, {"size=1m", "mode=700"}, {"size=2m"}, nil} {
		req := mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: append(data, "noexec")}
		c.mount(req)
		require.Len(c, c.at(target), 1)
	}
	options := c.at(target)[0].SuperOptions
	c.mount(mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: []string{"size=2m", "noexec"}})
	require.Equal(c, options, c.at(target)[0].SuperOptions, "the mount that is there stays as it is")
	c.fails(mount.ErrMounted, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: "a", Target: target, FSType: "tmpfs", Options: []string{"size=1m", "mode=700"}})
	})
}

// partOfFileSystem: a part of a file system is not the file system.
func (c *contract) partOfFileSystem() {
	if c.fake != nil {
		c.Skip("the file systems that a Fake mounts have no parts")
	}
	tmpfs, target := c.mkdir("tmpfs"), c.mkdir("target")
	req := mount.Request{Source: "a", Target: tmpfs, FSType: "tmpfs"}
	c.mount(req)
	c.mount(mount.Request{Source: c.mkdir("tmpfs/sub"), Target: target})
	req.Target = target
	c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), req) })
}

func (c *contract) somethingElse() {
	source, other, target := c.mkdir("source"), c.mkdir("other"), c.mkdir("target")
	c.mount(mount.Request{Source: source, Target: target})
	for _, req := range []mount.Request{
		{Source: other, Target: target},
		{Source: source, Target: target, Options: []string{"ro"}},
		{Source: source, Target: target, Options: []string{"noexec"}},
		{Source: "tmpfs", Target: target, FSType: "tmpfs"},
	} {
		err := c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), req) })
		var mountErr *mount.Error
		require.ErrorAs(c, err, &mountErr)
		require.Equal(c, "mount", mountErr.Op)
		require.Equal(c, target, mountErr.Target)
		require.Equal(c, req.Source, mountErr.Source)
	}
}

func (c *contract) stack() {
	first, second, target := c.mkdir("first"), c.mkdir("second"), c.mkdir("target")
	c.mount(mount.Request{Source: first, Target: target, Stack: true})
	c.mount(mount.Request{Source: second, Target: target, Stack: true})
	c.mount(mount.Request{Source: second, Target: target, Stack: true})
	infos := c.at(target)
	require.Len(c, infos, 3, "List has the hidden ones, too")
	require.Equal(c, infos[0].ID, infos[1].Parent)
	require.Equal(c, infos[1].ID, infos[2].Parent)
	require.NoError(c, c.write(filepath.Join(target, "file")))
	c.exists(filepath.Join(second, "file"))

	for left := 2; left >= 0; left-- {
		c.unmount(target)
		require.Len(c, c.at(target), left)
	}
	c.isMountPoint(target, false)
}

func (c *contract) unmountNothing() {
	dir := c.mkdir("dir")
	c.unmount(dir)
	target := c.mkdir("target")
	link := c.path("link")
	require.NoError(c, os.Symlink(target, link))
	c.mount(mount.Request{Source: dir, Target: target})
	c.unmount(link)
	c.isMountPoint(target, true)
	c.isMountPoint(link, false)
	c.fails(fs.ErrNotExist, func() error { return c.m.Unmount(c.Context(), c.path("none")) })
}

func (c *contract) unmountBusy() {
	source, target := c.mkdir("source"), c.mkdir("target")
	inner := c.mkdir("source/inner")
	c.mount(mount.Request{Source: source, Target: target})
	within := filepath.Join(target, "inner")
	c.mount(mount.Request{Source: inner, Target: within})
	c.fails(syscall.EBUSY, func() error { return c.m.Unmount(c.Context(), target) })
	c.unmount(within)

	if c.fake == nil {
		f, err := os.Open(target)
		require.NoError(c, err)
		err = c.fails(syscall.EBUSY, func() error { return c.m.Unmount(c.Context(), target) })
		require.NoError(c, f.Close())
		require.NotErrorIs(c, err, mount.ErrUncertain)
	}
	c.unmount(target)
	c.isMountPoint(target, false)
}

func (c *contract) noLinks() {
	source, target := c.mkdir("real/source"), c.mkdir("real/target")
	require.NoError(c, os.Symlink(c.path("real"), c.path("way")))
	require.NoError(c, os.Symlink(source, c.path("source")))
	require.NoError(c, os.Symlink(target, c.path("target")))
	for _, req := range []mount.Request{
		{Source: source, Target: c.path("way/target")},
		{Source: source, Target: c.path("target")},
		{Source: c.path("way/source"), Target: target},
		{Source: c.path("source"), Target: target},
		{Source: "tmpfs", Target: c.path("target"), FSType: "tmpfs"},
	} {
		c.fails(syscall.ELOOP, func() error { return c.m.Mount(c.Context(), req) })
	}
	c.mount(mount.Request{Source: source, Target: target})
	c.fails(syscall.ELOOP, func() error { return c.m.Unmount(c.Context(), c.path("way/target")) })
}

func (c *contract) missing() {
	dir, none := c.mkdir("dir"), c.path("none")
	for _, call := range []func() error{
		func() error { return c.m.Mount(c.Context(), mount.Request{Source: none, Target: dir}) },
		func() error { return c.m.Mount(c.Context(), mount.Request{Source: dir, Target: none}) },
		func() error { return c.m.Mount(c.Context(), mount.Request{Source: dir, Target: none + "/deep"}) },
		func() error {
			return c.m.Mount(c.Context(), mount.Request{Source: "x", Target: none, FSType: "tmpfs"})
		},
		func() error { return c.m.Unmount(c.Context(), none) },
		func() error { _, err := c.m.IsMountPoint(c.Context(), none); return err },
		func() error { _, err := c.m.MountRefs(c.Context(), none); return err },
	} {
		err := c.fails(fs.ErrNotExist, call)
		require.ErrorIs(c, err, syscall.ENOENT)
		var mountErr *mount.Error
		require.ErrorAs(c, err, &mountErr)
		require.Contains(c, err.Error(), none, "the message names the path")
	}
}

func (c *contract) directoryOrFile() {
	dir, file := c.mkdir("dir"), c.path("file")
	require.NoError(c, os.WriteFile(file, nil, 0o644))
	c.fails(syscall.ENOTDIR, func() error { return c.m.Mount(c.Context(), mount.Request{Source: dir, Target: file}) })
	c.fails(syscall.ENOTDIR, func() error { return c.m.Mount(c.Context(), mount.Request{Source: file, Target: dir}) })
	c.fails(syscall.ENOTDIR, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: "x", Target: file, FSType: "tmpfs"})
	})
	c.isMountPoint(file, false)
}

// refuses makes sure that the request is refused for the sake of the field.
func (c *contract) refuses(field string, req mount.Request) {
	c.Helper()
	before, err := c.m.List(c.Context())
	require.NoError(c, err)
	var input *mount.InputError
	require.ErrorAs(c, c.m.Mount(c.Context(), req), &input, "%+v", req)
	require.Equal(c, field, input.Field)
	after, err := c.m.List(c.Context())
	require.NoError(c, err)
	require.Equal(c, before, after)
}

func (c *contract) badInput() {
	dir := c.mkdir("dir")
	for _, target := range []string{"", "/", "//", "/.", "relative", dir + "/../dir", dir + "\x00"} {
		c.refuses("Target", mount.Request{Source: dir, Target: target})
		var input *mount.InputError
		require.ErrorAs(c, c.m.Unmount(c.Context(), target), &input, "%q", target)
		require.Equal(c, "Target", input.Field)
	}
	for _, path := range []string{"", "relative", dir + "/../dir", "/..", dir + "\x00"} {
		for _, query := range []func() error{
			func() error { _, err := c.m.IsMountPoint(c.Context(), path); return err },
			func() error { _, err := c.m.MountRefs(c.Context(), path); return err },
		} {
			var input *mount.InputError
			require.ErrorAs(c, query(), &input, "%q", path)
			require.Equal(c, "Path", input.Field)
			require.Equal(c, path, input.Value)
		}
	}
	for _, source := range []string{"", "relative", dir + "/../dir", dir + "\x00"} {
		c.refuses("Source", mount.Request{Source: source, Target: dir})
	}
	for _, option := range []string{"", "=", "a,b", "a\x00", "bind", "remount", "loop=/dev/loop0", "x-y", "size=1", "sync"} {
		c.refuses("Options[1]", mount.Request{Source: dir, Target: dir, Options: []string{"ro", option}})
	}
	c.refuses("Options[1]", mount.Request{Source: dir, Target: dir, Options: []string{"ro", "rw"}})
	c.refuses("FSType", mount.Request{Source: dir, Target: dir, FSType: "a/b"})
	c.refuses("Secrets[0]", mount.Request{Source: dir, Target: dir, Secrets: []mount.Secret{mount.NewSecret("a=b")}})
	c.isMountPoint(dir, false)
}

// root: queries may be about the root, which nothing can be mounted on.
func (c *contract) root() {
	for _, path := range []string{"/", "//", "/.", "/./", "/.//."} {
		is, err := c.m.IsMountPoint(c.Context(), path)
		require.NoError(c, err, path)
		require.True(c, is, path)
		_, err = c.m.MountRefs(c.Context(), path)
		require.NoError(c, err, path)
	}
}

func (c *contract) strangeNames() {
	for _, name := range []string{
		" ", "a b", "tab\there", "new\nline", `back\slash`, `octal\040`, "#hash", "-", "ünïcode",
		"\xff\xfe", "a,b=c", "ro - tmpfs x rw", "..data", "...", "'\"$(id)",
	} {
		source, target := c.mkdir("source/"+name), c.mkdir("target/"+name)
		again := c.mkdir("again/" + name)
		c.mount(mount.Request{Source: source, Target: target})
		c.mount(mount.Request{Source: source, Target: again})
		c.isMountPoint(target, true)
		c.isMountPoint(again, true)
		refs, err := c.m.MountRefs(c.Context(), target)
		require.NoError(c, err)
		require.Equal(c, []string{again}, refs)
		require.Equal(c, filepath.Base(source), filepath.Base(c.at(target)[0].Root))
		c.unmount(target)
		c.unmount(again)
		c.isMountPoint(target, false)
	}
}

func (c *contract) refs() {
	source, inner := c.mkdir("source"), c.mkdir("source/inner")
	a, b, sub, subsub := c.mkdir("a"), c.mkdir("b"), c.mkdir("sub"), c.mkdir("subsub")
	tmpfs := c.mkdir("tmpfs")
	c.mount(mount.Request{Source: source, Target: a})
	c.mount(mount.Request{Source: a, Target: b, Options: []string{"ro"}})
	c.mount(mount.Request{Source: inner, Target: sub})
	c.mount(mount.Request{Source: sub, Target: subsub})
	c.mount(mount.Request{Source: "tmpfs", Target: tmpfs, FSType: "tmpfs"})
	for path, want := range map[string][]string{
		source:                    {a, b},
		a:                         {b},
		b:                         {a},
		inner:                     {sub, subsub},
		filepath.Join(b, "inner"): {sub, subsub},
		sub:                       {subsub},
		tmpfs:                     nil,
		c.dir:                     nil,
	} {
		refs, err := c.m.MountRefs(c.Context(), path)
		require.NoError(c, err)
		require.ElementsMatch(c, want, refs, path)
		require.IsIncreasing(c, append([]string{""}, refs...))
	}
}

func (c *contract) refsOfHidden() {
	source, a, b, over := c.mkdir("source"), c.mkdir("a"), c.mkdir("top/b"), c.mkdir("over")
	top := c.path("top")
	c.Cleanup(func() { c.unmountAll(top) })
	c.mount(mount.Request{Source: source, Target: a})
	c.mount(mount.Request{Source: source, Target: b})
	// Something over the one, something above the other.
	c.mount(mount.Request{Source: over, Target: a, Stack: true})
	c.refsAre(source, b)
	c.mount(mount.Request{Source: over, Target: top})
	c.refsAre(source)
	c.refsAre(a, top)
	c.unmount(a)
	c.refsAre(a)
	c.unmount(top)
	c.refsAre(source, a, b)
}

func (c *contract) refsAre(path string, want ...string) {
	c.Helper()
	refs, err := c.m.MountRefs(c.Context(), path)
	require.NoError(c, err)
	require.ElementsMatch(c, want, refs)
}

func (c *contract) deleted() {
	source, target := c.mkdir("source"), c.mkdir("target")
	other, empty := c.mkdir("other"), c.mkdir("empty")
	c.mount(mount.Request{Source: source, Target: target})
	c.mount(mount.Request{Source: source, Target: other})
	root := c.at(target)[0].Root
	require.False(c, c.at(target)[0].Deleted)
	require.NoError(c, os.Remove(source))
	c.isDeleted(root, target)
	c.refsAre(target, other)
	c.fails(fs.ErrNotExist, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: source, Target: target})
	})

	// A new directory at the same path is another one.
	require.NoError(c, os.Mkdir(source, 0o755))
	c.isDeleted(root, target)
	c.refsAre(source)
	c.refsAre(target, other)
	again := mount.Request{Source: source, Target: target}
	c.fails(mount.ErrMounted, func() error { return c.m.Mount(c.Context(), again) })
	again.Stack = true
	c.fails(fs.ErrNotExist, func() error { return c.m.Mount(c.Context(), again) })
	_, err := c.m.IsMountPoint(c.Context(), filepath.Join(target, "file"))
	require.ErrorIs(c, err, fs.ErrNotExist, "what is removed is empty")

	// What was bound elsewhere before is still the same; it is not bound again.
	c.isDeleted(root, other)
	c.mount(mount.Request{Source: target, Target: other})
	c.fails(fs.ErrNotExist, func() error {
		return c.m.Mount(c.Context(), mount.Request{Source: target, Target: empty})
	})
	c.unmount(other)
	c.unmount(target)
	c.isMountPoint(target, false)
	again.Stack = false
	c.mount(again)
	require.False(c, c.at(target)[0].Deleted)
	c.refsAre(source, target)
}

func (c *contract) deletedFile() {
	source, target, other := c.path("source"), c.path("target"), c.path("other")
	for _, file := range []string{source, target, other} {
		require.NoError(c, os.WriteFile(file, nil, 0o644))
	}
	c.Cleanup(func() { c.unmountAll(target) })
	c.mount(mount.Request{Source: source, Target: target})
	root := c.at(target)[0].Root
	require.NoError(c, os.Rename(other, source))
	c.isDeleted(root, target)
	c.refsAre(source)
	c.unmount(target)
}

// isDeleted makes sure that what is mounted at target is known to be removed.
func (c *contract) isDeleted(root, target string) {
	c.Helper()
	c.isMountPoint(target, true)
	info := c.at(target)[0]
	require.True(c, info.Deleted, "%+v", info)
	require.Equal(c, root, info.Root)
	list, err := c.m.List(c.Context())
	require.NoError(c, err)
	require.Empty(c, mount.Table(list).Origins(target))
}

func (c *contract) endedContext() {
	source, target := c.mkdir("source"), c.mkdir("target")
	cause := errors.New("the pod is gone")
	ctx, cancel := context.WithCancelCause(c.Context())
	cancel(cause)
	for _, want := range []error{cause, context.Canceled} {
		c.fails(want, func() error { return c.m.Mount(ctx, mount.Request{Source: source, Target: target}) })
	}
	c.mount(mount.Request{Source: source, Target: target})
	for _, want := range []error{cause, context.Canceled} {
		c.fails(want, func() error { return c.m.Unmount(ctx, target) })
	}
	c.isMountPoint(target, true)
}

func (c *contract) concurrent() {
	source, target := c.mkdir("source"), c.mkdir("target")
	each := func(call func() error) {
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				if err := call(); err != nil {
					c.Error(err)
				}
			})
		}
		wg.Wait()
	}
	for range 8 {
		each(func() error {
			return c.m.Mount(c.Context(), mount.Request{Source: source, Target: target, Options: []string{"ro"}})
		})
		require.Len(c, c.at(target), 1)
		each(func() error { return c.m.Unmount(c.Context(), target) })
		c.isMountPoint(target, false)
	}
}

// queriesBesideChanges: whoever only asks does not disturb whoever mounts. A
// query may keep a mount busy for as long as the kernel is at it.
func (c *contract) queriesBesideChanges() {
	source, target := c.mkdir("source"), c.mkdir("target")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	defer wg.Wait()
	defer close(stop)
	for range 4 {
		wg.Go(func() { c.askUntil(stop, target) })
	}
	for range 200 {
		c.mount(mount.Request{Source: source, Target: target})
		c.unmountRetrying(target, time.Second)
		c.isMountPoint(target, false)
	}
}

// askUntil asks all there is to ask about the target, again and again.
func (c *contract) askUntil(stop <-chan struct{}, target string) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Millisecond):
		}
		_, listErr := c.m.List(c.Context())
		_, refsErr := c.m.MountRefs(c.Context(), target)
		_, isErr := c.m.IsMountPoint(c.Context(), target)
		for _, err := range []error{listErr, refsErr, isErr} {
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.Error(err)
			}
		}
	}
}

func (c *contract) unmountRetrying(target string, patience time.Duration) {
	c.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		err := c.m.Unmount(c.Context(), target)
		if err == nil {
			return
		}
		require.ErrorIs(c, err, syscall.EBUSY)
		require.True(c, time.Now().Before(deadline), "busy for too long")
	}
}
