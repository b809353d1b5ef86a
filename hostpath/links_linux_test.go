package hostpath_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// newLinkNode returns a node with directories of links, /etc and /var, and roots, /zone and /run.
// All directories above them belong to root.
func newLinkNode(t *testing.T, change ...func(*hostpath.Config)) *node {
	t.Helper()
	dir := testbed.Tmpfs(t, "/mnt")
	at := dir + "/paths/"
	for _, name := range []string{"zone", "run/deep", "etc", "var", "secret"} {
		require.NoError(t, os.MkdirAll(at+name, 0o755))
	}
	for _, name := range []string{"zone/UTC", "zone/GMT", "run/x", "secret/file", "etc/plain"} {
		require.NoError(t, os.WriteFile(at+name, []byte(name), 0o644))
	}
	n := nodeIn(t, mount.New(mount.Config{}), dir, append(change, func(c *hostpath.Config) {
		c.Roots, c.Links = []string{at + "zone", at + "run"}, []string{at + "etc", at + "var"}
	})...)
	t.Cleanup(func() { require.NoError(t, n.mounter.Close()) })
	return n
}

func (n *node) link(t *testing.T, name, to string) {
	t.Helper()
	require.NoError(t, os.Symlink(to, n.paths+"/"+name))
}

// TestLinks are followed where the configuration says so, and end where it allows.
func TestLinks(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newLinkNode(t)
	n.link(t, "etc/localtime", "../zone/UTC")
	n.link(t, "etc/chain", "./localtime")
	n.link(t, "etc/up", "../../../../mnt/paths//zone/./UTC")
	n.link(t, "var/run", n.paths+"/run")
	n.link(t, "zone/own", "../etc/localtime")
	for path, want := range map[string]string{
		"etc/localtime": "zone/UTC",
		"etc/chain":     "zone/UTC",
		"etc/up":        "zone/UTC",
		"var/run/x":     "run/x",
		"run/x":         "run/x",
	} {
		spec := inPod(n.paths+"/"+path, v1.HostPathFile)
		target, err := n.setUp(spec)
		require.NoError(t, err, path)
		text, err := os.ReadFile(target)
		require.NoError(t, err)
		require.Equal(t, want, string(text), path)

		again, err := n.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
		require.NoError(t, err)
		require.Equal(t, spec.Volume.HostPath.Path, again.Spec.Volume.HostPath.Path)
		_, err = n.setUp(spec)
		require.NoError(t, err, "again")
		require.Len(t, n.mounts(t), 1)
		n.tearDown(t)
		require.NoDirExists(t, n.host.Root()+"/pods/1/plugins")
	}
}

// TestLinkChanges checks that a mounted volume keeps its source when the link to it changes, until a
// container starts.
func TestLinkChanges(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newLinkNode(t)
	n.link(t, "etc/localtime", "../zone/UTC")
	spec := inPod(n.paths+"/etc/localtime", v1.HostPathUnset)
	target, err := n.setUp(spec)
	require.NoError(t, err)
	require.NoError(t, os.Remove(n.paths+"/etc/localtime"))
	n.link(t, "etc/localtime", "../zone/GMT")
	for range 2 {
		_, err = n.setUp(spec, keep)
		require.NoError(t, err)
		text, err := os.ReadFile(target)
		require.NoError(t, err)
		require.Equal(t, "zone/UTC", string(text))
		again, err := n.plugin.ConstructVolumeSpec(t.Context(), "vol", target)
		require.NoError(t, err)
		require.Equal(t, spec.Volume.HostPath.Path, again.Spec.Volume.HostPath.Path)
	}
	_, err = n.setUp(inPod(n.paths+"/etc/../zone/GMT", v1.HostPathUnset))
	require.Error(t, err)
	_, err = n.setUp(inPod(n.paths+"/zone/GMT", v1.HostPathUnset))
	require.ErrorIs(t, err, volume.ErrAlreadyMounted)
	_, err = n.setUp(spec)
	require.NoError(t, err)
	text, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "zone/GMT", string(text))
	require.Len(t, n.mounts(t), 1)
	n.tearDown(t)
}

// TestRefusedLinks are named, with the reason, and nothing is left of the volume.
func TestRefusedLinks(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	const (
		links = "its directory is not below one of hostpath.Config.Links"
		root  = "hostpath.Config.Links follows links of root alone"
		out   = "it leads to a path that is not below one of hostpath.Config.Roots"
		loop  = "more than 40 links"
	)
	n := newLinkNode(t)
	for _, dir := range []string{"open", "group", "owned", "open/in"} {
		require.NoError(t, os.MkdirAll(n.paths+"/etc/"+dir, 0o755))
		n.link(t, "etc/"+dir+"/link", n.paths+"/zone/UTC")
	}
	require.NoError(t, os.Chmod(n.paths+"/etc/open", 0o777|fs.ModeSticky))
	require.NoError(t, os.Chmod(n.paths+"/etc/group", 0o775))
	require.NoError(t, os.Chown(n.paths+"/etc/owned", 1000, 0))
	n.link(t, "etc/theirs", "../zone/UTC")
	require.NoError(t, os.Lchown(n.paths+"/etc/theirs", 1000, 0))
	n.link(t, "etc/out", "../secret/file")
	n.link(t, "etc/nothing", "../secret/none")
	n.link(t, "etc/pods", n.host.Root()+"/pods")
	n.link(t, "etc/loop", "loop")
	n.link(t, "etc/by", "../zone/back")
	n.link(t, "zone/back", "UTC")
	for path, reason := range map[string]string{
		"zone/back":        links,
		"etc/by":           links,
		"etc/open/link":    root,
		"etc/group/link":   root,
		"etc/owned/link":   root,
		"etc/open/in/link": root,
		"etc/theirs":       root,
		"etc/out":          out,
		"etc/nothing":      out,
		"etc/pods":         out,
		"etc/loop":         loop,
	} {
		for _, kind := range []v1.HostPathType{v1.HostPathUnset, v1.HostPathFileOrCreate, v1.HostPathDirectoryOrCreate} {
			_, err := n.setUp(inPod(n.paths+"/"+path, kind))
			var link *hostpath.LinkError
			require.ErrorAs(t, err, &link, path)
			require.ErrorContains(t, err, reason, path)
			require.True(t, strings.HasPrefix(link.Link, n.paths), link.Link)
			require.ErrorIs(t, err, unix.ELOOP)
			require.Equal(t, volume.Transient, volume.KindOf(err), "the node can change")
		}
	}
	for _, path := range []string{"etc/plain", "etc/missing", "var"} {
		_, err := n.setUp(inPod(n.paths+"/"+path, v1.HostPathDirectoryOrCreate))
		var invalid *field.Error
		require.ErrorAs(t, err, &invalid, path)
	}
	require.NoFileExists(t, n.paths+"/secret/none")
	require.NoDirExists(t, n.paths+"/secret/none")
	n.requireDown(t)
	require.NoDirExists(t, n.host.Root()+"/pods/1/plugins")
}

// TestNoLinks checks that the error names the link if links are not permitted.
func TestNoLinks(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.Config{})
	require.NoError(t, os.MkdirAll(n.paths+"/a", 0o755))
	n.link(t, "link", "a")
	for _, path := range []string{"/link", "/link/b"} {
		_, err := n.setUp(inPod(n.paths+path, v1.HostPathUnset))
		require.ErrorContains(t, err, `symbolic link "`+n.paths+`/link" to "a"`)
		require.ErrorContains(t, err, "hostpath.Config.Links")
	}
}

// TestCreatedBehindLink checks that a missing directory or file is created at the link's
// target.
func TestCreatedBehindLink(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newLinkNode(t, func(c *hostpath.Config) { c.CreateMissing = true })
	n.link(t, "var/run", "../run")
	n.link(t, "var/later", "../run/later")
	for path, kind := range map[string]v1.HostPathType{
		"run/a/b": v1.HostPathDirectoryOrCreate, "run/deep/file": v1.HostPathFileOrCreate, "run/unset": v1.HostPathUnset,
	} {
		_, err := n.setUp(inPod(n.paths+"/var/"+path, kind))
		require.NoError(t, err)
		n.tearDown(t)
		info, err := os.Lstat(n.paths + "/" + path)
		require.NoError(t, err)
		require.Equal(t, kind != v1.HostPathFileOrCreate, info.IsDir())
	}
	_, err := n.setUp(inPod(n.paths+"/var/later", v1.HostPathUnset))
	require.NoError(t, err)
	n.tearDown(t)
	require.DirExists(t, n.paths+"/run/later")
}

// TestCreateMissing checks that Config.CreateMissing creates a missing path of a volume
// without a type.
func TestCreateMissing(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	for _, create := range []bool{false, true} {
		n := newNode(t, mount.Config{}, func(c *hostpath.Config) { c.CreateMissing = create })
		_, err := n.setUp(inPod(n.paths+"/a/b", v1.HostPathUnset))
		if !create {
			require.ErrorIs(t, err, fs.ErrNotExist)
			require.NoDirExists(t, n.paths+"/a")
			continue
		}
		require.NoError(t, err)
		n.tearDown(t)
		info, err := os.Lstat(n.paths + "/a/b")
		require.NoError(t, err)
		require.Equal(t, fs.ModeDir|0o755, info.Mode())
		_, err = n.setUp(inPod(n.paths+"/c", v1.HostPathDirectory))
		require.ErrorIs(t, err, fs.ErrNotExist)
	}
}

// TestCreateWithoutPrivilege: what root itself may not create is not tried again, such as
// an entry of a directory that is immutable.
func TestCreateWithoutPrivilege(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	n := newLinkNode(t, func(c *hostpath.Config) { c.CreateMissing = true })
	dir, err := os.Open(n.paths + "/run/deep")
	require.NoError(t, err)
	defer func() { _ = dir.Close() }()
	const immutable = 0x10 // FS_IMMUTABLE_FL
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), unix.FS_IOC_SETFLAGS, immutable); err != nil {
		mounttest.SkipWithout(t, "immutable", "tmpfs has no such flag")
	}
	defer func() { _ = unix.IoctlSetPointerInt(int(dir.Fd()), unix.FS_IOC_SETFLAGS, 0) }()
	for _, kind := range []v1.HostPathType{v1.HostPathUnset, v1.HostPathDirectoryOrCreate, v1.HostPathFileOrCreate} {
		_, err := n.setUp(inPod(n.paths+"/run/deep/new", kind))
		require.ErrorIs(t, err, unix.EPERM)
		require.Equal(t, volume.Final, volume.KindOf(err), err)
		require.NotContains(t, err.Error(), "try again")
	}
	n.requireDown(t)
}
