package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A node is a host with a plugin, and a directory with local disks.
type node struct {
	disks  string
	host   *volume.Host
	plugin *local.Plugin
}

func newNode(t *testing.T, m mount.Interface) *node {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return nodeIn(t, m, dir)
}

// nodeIn is the node that lives in dir, also when another process had it before.
func nodeIn(t require.TestingT, m mount.Interface, dir string) *node {
	n := &node{disks: dir + "/disks"}
	require.NoError(t, os.MkdirAll(dir+"/root", 0o755))
	require.NoError(t, os.MkdirAll(n.disks+"/disk", 0o755))
	var err error
	n.host, err = volume.NewHost(dir + "/root")
	require.NoError(t, err)
	n.plugin = local.New(local.Config{Mounter: m, Roots: []string{n.disks}})
	_, err = volume.NewVolumePluginMgr(n.host, n.plugin)
	require.NoError(t, err)
	return n
}

func spec(path string, options ...string) *volume.Spec {
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pv"},
		Spec: v1.PersistentVolumeSpec{
			MountOptions:           options,
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
		},
	}, false)
}

func pod(uid types.UID) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }

func (n *node) mounter(t require.TestingT, s *volume.Spec, uid types.UID) volume.Mounter {
	m, err := n.plugin.NewMounter(s, pod(uid))
	require.NoError(t, err)
	return m
}

func (n *node) unmounter(t require.TestingT, uid types.UID) volume.Unmounter {
	u, err := n.plugin.NewUnmounter("pv", uid)
	require.NoError(t, err)
	return u
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

// mountsBelow returns the mount points at and below dir.
func mountsBelow(t require.TestingT, m mount.Interface, dir string) []mount.Info {
	table, err := m.List()
	require.NoError(t, err)
	var found []mount.Info
	for _, info := range table {
		if info.Mountpoint == dir || strings.HasPrefix(info.Mountpoint, dir+"/") {
			found = append(found, info)
		}
	}
	return found
}

func TestNewMounterRefuses(t *testing.T) {
	n := newNode(t, mounttest.NewFake(mount.Config{}))
	require.NoError(t, os.MkdirAll(filepath.Dir(n.disks)+"/disks-of-others", 0o755))
	block := spec(n.disks + "/disk")
	mode := v1.PersistentVolumeBlock
	block.PersistentVolume.Spec.VolumeMode = &mode
	readOnly := spec(n.disks+"/disk", "rw")
	readOnly.ReadOnly = true
	for name, test := range map[string]struct {
		spec *volume.Spec
		says string
	}{
		"no path":          {spec(""), "spec.persistentVolume.spec.local.path"},
		"relative":         {spec("disk"), "absolute"},
		"dot dot":          {spec(n.disks + "/../root"), `".."`},
		"NUL":              {spec(n.disks + "/a\x00b"), "NUL"},
		"the root itself":  {spec(n.disks), "not below"},
		"the root, longer": {spec(n.disks + "//."), "not below"},
		"beside the root":  {spec(n.disks + "-of-others"), "not below"},
		"elsewhere":        {spec("/etc"), "not below"},
		"block":            {block, "not supported"},
		"nil":              {nil, "spec"},
		"another kind":     {volume.NewSpecFromVolume(&v1.Volume{Name: "v"}), "local"},
		"bind option":      {spec(n.disks+"/disk", "bind"), `Options[0] "bind"`},
		"fs option":        {spec(n.disks+"/disk", "noexec", "size=1m"), `Options[1] "size=1m"`},
		"contradiction":    {spec(n.disks+"/disk", "exec", "noexec"), `contradicts "exec"`},
		"rw of read-only":  {readOnly, `contradicts "rw"`},
		"hostile":          {spec("/" + strings.Repeat("x", 1<<20)), "..."},
	} {
		_, err := n.plugin.NewMounter(test.spec, pod("1"))
		require.ErrorContains(t, err, test.says, name)
		require.Less(t, len(err.Error()), 1000, name)
	}
	_, err := n.plugin.NewMounter(spec(n.disks+"/disk"), nil)
	require.Error(t, err)
	for _, uid := range []types.UID{"", "..", "a/b", "a\x00"} {
		_, err := n.plugin.NewMounter(spec(n.disks+"/disk"), pod(uid))
		require.Error(t, err)
		_, err = n.plugin.NewUnmounter("pv", uid)
		require.Error(t, err)
	}
	left, err := os.ReadDir(n.host.Root())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestWithoutRootsNothingIsAllowed(t *testing.T) {
	dir := t.TempDir()
	host, err := volume.NewHost(dir)
	require.NoError(t, err)
	plugin := local.New(local.Config{Mounter: mounttest.NewFake(mount.Config{})})
	require.NoError(t, plugin.Init(host))
	_, err = plugin.NewMounter(spec(dir), pod("1"))
	require.ErrorContains(t, err, "not below")
}

func TestBadConfig(t *testing.T) {
	host, err := volume.NewHost(t.TempDir())
	require.NoError(t, err)
	fake := mounttest.NewFake(mount.Config{})
	for _, config := range []local.Config{
		{},
		{Mounter: fake, Roots: []string{"relative"}},
		{Mounter: fake, Roots: []string{"/no/such/directory"}},
	} {
		require.Error(t, local.New(config).Init(host))
	}
	_, err = local.New(local.Config{Mounter: fake}).NewUnmounter("pv", "1")
	require.ErrorContains(t, err, "not initialised")
}

func TestReadOnly(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		n := newNode(t, m)
		disk := n.disks + "/disk"
		byClaim := spec(disk)
		byClaim.ReadOnly = true
		for name, test := range map[string]struct {
			spec *volume.Spec
			args volume.MounterArgs
			want bool
		}{
			"writable":          {spec: spec(disk)},
			"claim":             {spec: byClaim, want: true},
			"pod":               {spec: spec(disk), args: volume.MounterArgs{ReadOnly: true}, want: true},
			"volume":            {spec: spec(disk, "ro"), want: true},
			"all":               {spec: spec(disk, "ro", "noexec"), args: volume.MounterArgs{ReadOnly: true}, want: true},
			"writable, by name": {spec: spec(disk, "rw")},
		} {
			mounter := n.mounter(t, test.spec, "1")
			require.NoError(t, mounter.SetUp(t.Context(), test.args), name)
			mounts := mountsBelow(t, m, mounter.GetPath())
			require.Len(t, mounts, 1, name)
			require.Equal(t, test.want, mounts[0].Flags&mount.ReadOnly != 0, name)
			require.Equal(t, test.want && !test.args.ReadOnly || name == "all", mounter.GetAttributes().ReadOnly, name)
			require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
		}
		mounter := n.mounter(t, spec(disk, "rw"), "1")
		err := mounter.SetUp(t.Context(), volume.MounterArgs{ReadOnly: true})
		require.ErrorContains(t, err, `contradicts "rw"`)
		require.NoDirExists(t, mounter.GetPath())
	})
}

func TestSymlinksLeadNowhere(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		n := newNode(t, m)
		secret := filepath.Dir(n.disks) + "/secret"
		require.NoError(t, os.Mkdir(secret, 0o755))
		require.NoError(t, os.Symlink(secret, n.disks+"/out"))
		require.NoError(t, os.Symlink("../..", n.disks+"/disk/up"))
		require.NoError(t, os.Symlink("disk", n.disks+"/inside"))
		for _, path := range []string{"/out", "/disk/up", "/disk/up/secret", "/inside"} {
			err := n.mounter(t, spec(n.disks+path), "1").SetUp(t.Context(), volume.MounterArgs{})
			require.ErrorContains(t, err, "symbolic link", path)
		}
		require.Empty(t, mountsBelow(t, m, n.host.Root()))
		require.NoDirExists(t, n.host.Root()+"/pods", "nothing is left of it")
	})
}

func TestTargetIsBelowTheHost(t *testing.T) {
	n := newNode(t, mounttest.NewFake(mount.Config{}))
	outside := filepath.Dir(n.disks) + "/outside"
	require.NoError(t, os.Mkdir(outside, 0o755))
	for _, dir := range []string{outside, n.host.Root(), n.host.Root() + "/../outside", "/", "", "x"} {
		require.Error(t, n.mounter(t, spec(n.disks+"/disk"), "1").SetUpAt(t.Context(), dir, volume.MounterArgs{}), "%q", dir)
		require.Error(t, n.unmounter(t, "1").TearDownAt(t.Context(), dir), "%q", dir)
	}
	require.DirExists(t, outside)
}

func TestConstructVolumeSpec(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		n := newNode(t, m)
		// The embedder knows the disks by a link.
		by := filepath.Dir(n.disks) + "/by-name"
		require.NoError(t, os.Symlink(n.disks, by))
		plugin := local.New(local.Config{Mounter: m, Roots: []string{by}})
		require.NoError(t, plugin.Init(n.host))
		for _, options := range [][]string{nil, {"ro"}, {"noexec"}, {"ro", "noexec", "nosymfollow"}} {
			mounter, err := plugin.NewMounter(spec(by+"/disk", options...), pod("1"))
			require.NoError(t, err)
			require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))

			got, err := plugin.ConstructVolumeSpec(t.Context(), "pv", mounter.GetPath())
			require.NoError(t, err)
			require.Equal(t, by+"/disk", got.PersistentVolume.Spec.Local.Path)
			require.Equal(t, "pv", got.Name())
			require.Equal(t, len(options) > 0 && options[0] == "ro", got.IsReadOnly())
			again, err := plugin.NewMounter(got, pod("1"))
			require.NoError(t, err)
			require.NoError(t, again.SetUp(t.Context(), volume.MounterArgs{}), "the same mount")
			require.Len(t, mountsBelow(t, m, mounter.GetPath()), 1)
			require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))

			_, err = plugin.ConstructVolumeSpec(t.Context(), "pv", mounter.GetPath())
			require.ErrorIs(t, err, volume.ErrNotMounted)
		}
	})
}

func TestConstructVolumeSpecOfSomethingElse(t *testing.T) {
	m := mounttest.NewFake(mount.Config{})
	n := newNode(t, m)
	target := n.host.Root() + "/x"
	require.NoError(t, os.Mkdir(target, 0o755))
	require.NoError(t, m.Mount(t.Context(), mount.Request{Source: "tmpfs", Target: target, FSType: "tmpfs"}))
	_, err := n.plugin.ConstructVolumeSpec(t.Context(), "pv", target)
	require.ErrorIs(t, err, volume.ErrUncertain)
	_, err = n.plugin.ConstructVolumeSpec(t.Context(), "../pv", target)
	require.Error(t, err)
}

func TestMetrics(t *testing.T) {
	t.Run("real", func(t *testing.T) {
		if !mounttest.Namespace(t) {
			return
		}
		n := newNode(t, mount.New(mount.Config{}))
		mounter := n.mounter(t, spec(n.disks+"/disk"), "1")
		_, err := mounter.GetMetrics(t.Context())
		require.ErrorIs(t, err, volume.ErrNotMounted)
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
		for _, v := range []volume.MetricsProvider{mounter, n.unmounter(t, "1")} {
			metrics, err := v.GetMetrics(t.Context())
			require.NoError(t, err)
			require.Positive(t, metrics.Capacity.Value())
			require.LessOrEqual(t, metrics.Available.Value(), metrics.Capacity.Value())
		}
		require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
		_, err = mounter.GetMetrics(t.Context())
		require.ErrorIs(t, err, volume.ErrNotMounted)
	})
}

// TestMountFails: whatever the mounter answers, the error says what is true.
func TestMountFails(t *testing.T) {
	for name, test := range map[string]struct {
		fault mounttest.Fault
		want  error
	}{
		"before":    {mounttest.Fault{Op: mounttest.OpMount, Err: os.ErrPermission}, volume.ErrTransient},
		"uncertain": {mounttest.Fault{Op: mounttest.OpMount, Err: mount.ErrUncertain}, volume.ErrUncertain},
		"after":     {mounttest.Fault{Op: mounttest.OpMount, Err: os.ErrPermission, After: true, Times: 2}, volume.ErrUncertain},
	} {
		m := mounttest.NewFake(mount.Config{})
		n := newNode(t, m)
		require.NoError(t, os.MkdirAll(n.host.Root()+"/pods", 0o755))
		m.Inject(test.fault)
		mounter := n.mounter(t, spec(n.disks+"/disk"), "1")
		require.ErrorIs(t, mounter.SetUp(t.Context(), volume.MounterArgs{}), test.want, name)
		m.ClearFaults()
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}), name)
		require.Len(t, mountsBelow(t, m, n.host.Root()), 1, name)
		require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
		require.Empty(t, mountsBelow(t, m, n.host.Root()), name)
	}
}
