package local_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
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
	n.host, err = volume.NewHost(context.Background(), dir+"/root")
	require.NoError(t, err)
	n.plugin = local.New(local.Config{Mounter: m, Roots: []string{n.disks}})
	_, err = volume.NewVolumePluginMgr(context.Background(), n.host, n.plugin)
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
	table, err := m.List(context.Background())
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
		"the root itself":  {spec(n.disks), "must be below"},
		"the root, longer": {spec(n.disks + "//."), "must be below"},
		"beside the root":  {spec(n.disks + "-of-others"), "must be below"},
		"elsewhere":        {spec("/etc"), "must be below"},
		"block":            {block, "not supported"},
		"nil":              {nil, "spec"},
		"another kind":     {volume.NewSpecFromVolume(&v1.Volume{Name: "v"}), "local"},
		"bind option":      {spec(n.disks+"/disk", "bind"), `Options[0] "bind"`},
		"contradiction":    {spec(n.disks+"/disk", "exec", "noexec"), `contradicts "exec"`},
		"second in one":    {spec(n.disks+"/disk", "noexec,discard,rbind"), `Options[2] "rbind"`},
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

func TestNoRootsAllowNoPath(t *testing.T) {
	dir := t.TempDir()
	host, err := volume.NewHost(t.Context(), dir)
	require.NoError(t, err)
	plugin := local.New(local.Config{Mounter: mounttest.NewFake(mount.Config{})})
	require.NoError(t, plugin.Init(t.Context(), host))
	_, err = plugin.NewMounter(spec(dir), pod("1"))
	require.ErrorContains(t, err, "must be below")
}

func TestBadConfig(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	fake := mounttest.NewFake(mount.Config{})
	for _, config := range []local.Config{
		{},
		{Mounter: fake, Roots: []string{"relative"}},
		{Mounter: fake, Roots: []string{"/no/such/directory"}},
	} {
		require.Error(t, local.New(config).Init(t.Context(), host))
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

func TestSymlinksAreNotFollowed(t *testing.T) {
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
		// Config.Roots contains a symbolic link to the directory of the disks.
		by := filepath.Dir(n.disks) + "/by-name"
		require.NoError(t, os.Symlink(n.disks, by))
		plugin := local.New(local.Config{Mounter: m, Roots: []string{by}})
		require.NoError(t, plugin.Init(t.Context(), n.host))
		for _, options := range [][]string{nil, {"ro"}, {"noexec"}, {"ro", "noexec", "nosymfollow"}, {"ro, noexec", "nosymfollow,"}} {
			mounter, err := plugin.NewMounter(spec(by+"/disk", options...), pod("1"))
			require.NoError(t, err)
			require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))

			got, err := plugin.ConstructVolumeSpec(t.Context(), "pv", mounter.GetPath())
			require.NoError(t, err)
			require.Equal(t, by+"/disk", got.Spec.PersistentVolume.Spec.Local.Path)
			require.Equal(t, "pv", got.Spec.Name())
			require.Equal(t, len(options) > 0 && strings.HasPrefix(options[0], "ro"), got.Spec.IsReadOnly())
			again, err := plugin.NewMounter(got.Spec, pod("1"))
			require.NoError(t, err)
			require.NoError(t, again.SetUp(t.Context(), volume.MounterArgs{}), "the same mount")
			require.Len(t, mountsBelow(t, m, mounter.GetPath()), 1)
			require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))

			_, err = plugin.ConstructVolumeSpec(t.Context(), "pv", mounter.GetPath())
			require.ErrorIs(t, err, volume.ErrNotMounted)
		}
	})
}

func TestConstructVolumeSpecOfForeignMount(t *testing.T) {
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

func TestConstructVolumeSpecOfAPath(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		n := newNode(t, m)
		mounter := n.mounter(t, spec(n.disks+"/disk"), "1")
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
		root, at := n.host.Root(), mounter.GetPath()
		link, inside := filepath.Dir(n.disks)+"/link", root+"/link"
		require.NoError(t, os.Symlink(root, link))
		require.NoError(t, os.Symlink(root+"/pods", inside))

		for _, same := range []string{at + "/", at + "//.", strings.Replace(at, "/pods/", "//pods/./", 1)} {
			_, err := n.plugin.ConstructVolumeSpec(t.Context(), "pv", same)
			require.NoError(t, err, same)
		}
		outside := []string{
			strings.Replace(at, root, link, 1), root, root + "/", "/", "", "relative",
			root + "/../root" + at[len(root):], root + "/pods/../" + at[len(root):], root + "/a\x00b",
		}
		for _, path := range outside {
			_, err := n.plugin.ConstructVolumeSpec(t.Context(), "pv", path)
			var refused *field.Error
			require.ErrorAs(t, err, &refused, "%q", path)
			require.NotErrorIs(t, err, volume.ErrNotMounted)
		}
		_, err := n.plugin.ConstructVolumeSpec(t.Context(), "pv", inside+at[len(root+"/pods"):])
		require.ErrorIs(t, err, volume.ErrUncertain, "it is mounted, under another name")
		_, err = n.plugin.ConstructVolumeSpec(t.Context(), "pv", root+"/pods/none")
		require.ErrorIs(t, err, volume.ErrNotMounted)

		require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
	})
}

func TestConstructVolumeSpecFailedCheck(t *testing.T) {
	m := mounttest.NewFake(mount.Config{})
	n := newNode(t, m)
	for _, op := range []string{mounttest.OpList, mounttest.OpIsMountPoint} {
		m.Inject(mounttest.Fault{Op: op, Err: syscall.EIO, Times: 1})
		_, err := n.plugin.ConstructVolumeSpec(t.Context(), "pv", n.host.Root()+"/x")
		require.ErrorIs(t, err, syscall.EIO)
		require.Equal(t, volume.Transient, volume.KindOf(err))
	}
	_, err := local.New(local.Config{Mounter: m}).ConstructVolumeSpec(t.Context(), "pv", "/x")
	require.ErrorContains(t, err, "not initialised")
}

// TestConstructVolumeSpecFlags checks that the recovered specification of a volume clears a
// flag of the surrounding file system if the original one did.
func TestConstructVolumeSpecFlags(t *testing.T) {
	for name, allow := range map[string]mount.Allow{"strict": {}, "allowed": {SUID: true, Dev: true}} {
		t.Run(name, func(t *testing.T) {
			if mounttest.Namespace(t) {
				testConstructFlags(t, mount.New(mount.Config{Allow: allow}), allow)
			}
		})
	}
}

func testConstructFlags(t *testing.T, m mount.Interface, allow mount.Allow) {
	n := newNode(t, m)
	cases := map[string][][]string{ // by the flags of the file system
		"":                          {nil, {"noexec"}, {"strictatime"}, {"ro", "noatime"}},
		"noexec,noatime":            {nil, {"exec", "relatime"}, {"exec"}, {"strictatime", "nodiratime"}},
		"nosymfollow,nodiratime,ro": {nil, {"symfollow", "diratime"}, {"rw"}, {"atime"}},
	}
	if allow.SUID {
		cases["nosuid,nodev"] = [][]string{nil, {"suid"}, {"suid", "dev"}, {"nosuid"}}
	}
	for flags, volumes := range cases {
		req := mount.Request{Source: "disks", Target: n.disks, FSType: "tmpfs"}
		require.NoError(t, m.Mount(t.Context(), req))
		require.NoError(t, os.Mkdir(n.disks+"/disk", 0o755))
		if flags != "" {
			again := mount.Request{Source: n.disks, Target: n.disks, Options: strings.Split(flags, ","), Stack: true}
			require.NoError(t, m.Mount(t.Context(), again))
		}
		for _, options := range volumes {
			mounter := n.mounter(t, spec(n.disks+"/disk", options...), "1")
			require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
			up := mountsBelow(t, m, mounter.GetPath())

			found, err := n.plugin.ConstructVolumeSpec(t.Context(), "pv", mounter.GetPath())
			require.NoError(t, err, "%s, %v", flags, options)
			again := n.mounter(t, found.Spec, "1")
			require.NoError(t, again.SetUp(t.Context(), volume.MounterArgs{}), "%s, %v", flags, options)
			require.Equal(t, up, mountsBelow(t, m, mounter.GetPath()))

			require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
			require.NoError(t, again.SetUp(t.Context(), volume.MounterArgs{}), "%s, %v", flags, options)
			require.Equal(t, up[0].Flags, mountsBelow(t, m, mounter.GetPath())[0].Flags)
			require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
		}
		require.NoError(t, util.UnmountMountPoint(t.Context(), m, n.disks, util.KeepDirectory()))
	}
}

// TestNestedRoots checks that the innermost of nested roots determines a volume's path, in
// both directions.
func TestNestedRoots(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		n := newNode(t, m)
		data := filepath.Dir(n.disks) + "/data"
		require.NoError(t, os.MkdirAll(data+"/inner/volume", 0o755))
		require.NoError(t, os.Symlink(data, n.disks+"/ssd"))
		require.NoError(t, os.Symlink(data+"/inner", n.disks+"/short"))
		plugin := local.New(local.Config{Mounter: m, Roots: []string{n.disks, n.disks + "/ssd", n.disks + "/short"}})
		require.NoError(t, plugin.Init(t.Context(), n.host))
		for written, recovered := range map[string]string{
			n.disks + "/disk":             n.disks + "/disk",
			n.disks + "/ssd/inner":        n.disks + "/ssd/inner",
			n.disks + "/ssd/inner/volume": n.disks + "/short/volume",
			n.disks + "/short/volume":     n.disks + "/short/volume",
		} {
			mounter, err := plugin.NewMounter(spec(written), pod("1"))
			require.NoError(t, err)
			require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}), written)
			found, err := plugin.ConstructVolumeSpec(t.Context(), "pv", mounter.GetPath())
			require.NoError(t, err)
			require.Equal(t, recovered, found.Spec.PersistentVolume.Spec.Local.Path)
			require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
		}
		_, err := plugin.NewMounter(spec(n.disks+"/ssd"), pod("1"))
		require.NoError(t, err, "a link in the outer root: for the mounter to refuse")
	})
}

// TestHostsOwnDirectories checks that the host's own directories, which hold files of other
// pods, are refused as volumes.
func TestHostsOwnDirectories(t *testing.T) {
	m := mounttest.NewFake(mount.Config{})
	n := newNode(t, m)
	root, above := n.host.Root(), filepath.Dir(n.host.Root())
	for _, dir := range []string{"/pods/1", "/plugins/p", "/disks/disk", "/podsandmore"} {
		require.NoError(t, os.MkdirAll(root+dir, 0o755))
	}
	require.NoError(t, os.Symlink(root+"/pods", above+"/link"))
	for _, dir := range []string{"/root/pods", "/root/pods/1", "/root/plugins", "/root/plugins/p", "/link", "/link/1"} {
		err := local.New(local.Config{Mounter: m, Roots: []string{n.disks, above + dir}}).Init(t.Context(), n.host)
		require.ErrorContains(t, err, above+dir)
		require.ErrorContains(t, err, root+"/p", "both are named")
	}
	plugin := local.New(local.Config{Mounter: m, Roots: []string{filepath.Dir(above)}})
	require.NoError(t, plugin.Init(t.Context(), n.host))
	for _, dir := range []string{"", "/root", "/root/pods", "/root/pods/1", "/root/pods/2/x", "/root/plugins", "/root/plugins/p"} {
		_, err := plugin.NewMounter(spec(above+dir), pod("1"))
		var refused *field.Error
		require.ErrorAs(t, err, &refused, dir)
	}
	for _, dir := range []string{"/root/disks", "/root/disks/disk", "/root/podsandmore", "/disks/disk"} {
		mounter, err := plugin.NewMounter(spec(above+dir), pod("1"))
		require.NoError(t, err)
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}), dir)
		require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
	}
}

func TestUnsupportedArguments(t *testing.T) {
	m := mounttest.NewFake(mount.Config{})
	n := newNode(t, m)
	size := resource.MustParse("1Gi")
	for name, args := range map[string]volume.MounterArgs{
		"DesiredSize":  {DesiredSize: &size},
		"SELinuxLabel": {SELinuxLabel: "system_u:object_r:t:s0"},
	} {
		err := n.mounter(t, spec(n.disks+"/disk"), "1").SetUp(t.Context(), args)
		require.ErrorIs(t, err, volume.ErrNotSupported)
		require.ErrorContains(t, err, "MounterArgs."+name)
		require.NoDirExists(t, n.host.Root()+"/pods")
	}
}

func TestHostileNewSize(t *testing.T) {
	n := newNode(t, mounttest.NewFake(mount.Config{}))
	for _, q := range []resource.Quantity{
		resource.MustParse("1e99999999"), resource.MustParse("0e99999999"), *resource.NewScaledQuantity(1, -99999999),
	} {
		refused := make(chan error, 1)
		go func() {
			_, err := n.plugin.NodeExpand(t.Context(), volume.NodeResizeOptions{Spec: spec(n.disks + "/disk"), NewSize: q})
			refused <- err
		}()
		select {
		case err := <-refused:
			var bad *field.Error
			require.ErrorAs(t, err, &bad)
			require.Equal(t, "req.newSize", bad.Field)
		case <-time.After(30 * time.Second):
			t.Fatal("the size is computed")
		}
	}
}

// TestVolumesOfOnePod sets up all volumes of a new pod at once; half of them fail. No failure may
// remove the directories that the volumes share, or fail another volume.
func TestVolumesOfOnePod(t *testing.T) {
	onEach(t, func(t *testing.T, m mount.Interface) {
		n := newNode(t, m)
		for round := range 20 {
			uid := types.UID(fmt.Sprint("pod-", round))
			var wg sync.WaitGroup
			for i := range 16 {
				path := n.disks + "/disk"
				if i%2 > 0 {
					path = n.disks + "/missing"
				}
				s := spec(path)
				s.PersistentVolume.Name = fmt.Sprint("pv-", i)
				mounter := n.mounter(t, s, uid)
				wg.Go(func() {
					err := mounter.SetUp(t.Context(), volume.MounterArgs{})
					want := volume.ErrorKind(i % 2) // success or transient
					if volume.KindOf(err) != want {
						t.Errorf("%v: %v", volume.KindOf(err), err)
					}
				})
			}
			wg.Wait()
			require.Len(t, mountsBelow(t, m, n.host.Root()), 8)
			for i := range 16 {
				u, err := n.plugin.NewUnmounter(fmt.Sprint("pv-", i), uid)
				require.NoError(t, err)
				if i%2 > 0 {
					require.NoDirExists(t, u.GetPath(), "a failed one leaves nothing")
				}
				require.NoError(t, u.TearDown(t.Context()))
			}
		}
	})
}

// A hookedMounter calls a function before each mount.
type hookedMounter struct {
	mount.Interface
	before func(mount.Request)
}

func (h hookedMounter) Mount(ctx context.Context, req mount.Request) error {
	h.before(req)
	return h.Interface.Mount(ctx, req)
}

func TestFailureBesideOtherVolume(t *testing.T) {
	for name, test := range map[string]struct {
		made string
		want volume.ErrorKind
	}{"beside it": {"/../sibling", volume.Transient}, "in it": {"/stray", volume.Uncertain}} {
		n := newNode(t, hookedMounter{mounttest.NewFake(mount.Config{}), func(req mount.Request) {
			require.NoError(t, os.MkdirAll(filepath.Join(req.Target, test.made), 0o755))
		}})
		mounter := n.mounter(t, spec(n.disks+"/missing"), "1")
		err := mounter.SetUp(t.Context(), volume.MounterArgs{})
		require.Equal(t, test.want, volume.KindOf(err), "%s: %v", name, err)
	}
}

// TestTearDownKinds: the kind of the error is right. The contract tests further kinds.
func TestTearDownKinds(t *testing.T) {
	m := mounttest.NewFake(mount.Config{})
	n := newNode(t, m)
	mounter, unmounter := n.mounter(t, spec(n.disks+"/disk"), "1"), n.unmounter(t, "1")
	require.Equal(t, volume.Final, volume.KindOf(unmounter.TearDownAt(t.Context(), "/etc")))
	require.Equal(t, volume.Final, volume.KindOf(unmounter.TearDownAt(t.Context(), n.host.Root()+"/../x")))

	require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
	second := mount.Request{Source: n.disks + "/disk", Target: mounter.GetPath(), Stack: true}
	require.NoError(t, m.Mount(t.Context(), second))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	err := unmounter.TearDown(ended)
	require.Equal(t, volume.Transient, volume.KindOf(err), "nothing was unmounted: %v", err)
	require.Len(t, mountsBelow(t, m, mounter.GetPath()), 2)

	ctx, cancel := context.WithCancel(t.Context())
	half := local.New(local.Config{Mounter: contextEndingMounter{m, cancel}})
	require.NoError(t, half.Init(t.Context(), n.host))
	u, err := half.NewUnmounter("pv", "1")
	require.NoError(t, err)
	err = u.TearDown(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Uncertain, volume.KindOf(err), "one of two was unmounted: %v", err)
	require.Len(t, mountsBelow(t, m, mounter.GetPath()), 1)
	require.NoError(t, unmounter.TearDownAt(t.Context(), mounter.GetPath()+"/."), "however it is written")
	require.NoDirExists(t, mounter.GetPath())
}

// contextEndingMounter ends a context after each unmount.
type contextEndingMounter struct {
	mount.Interface
	end context.CancelFunc
}

func (e contextEndingMounter) Unmount(_ context.Context, target string) error {
	defer e.end()
	return e.Interface.Unmount(context.Background(), target)
}

// TestMetrics: a mounted volume has the metrics of its file system, and one that is not mounted
// an error.
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

// TestMountFails: the kind of the error is right for each error of the mounter.
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

// TestSetUpReadsNoTable checks that the SetUp of a volume that changes no group does not
// read the mount table.
func TestSetUpReadsNoTable(t *testing.T) {
	m := mounttest.NewFake(mount.Config{})
	n := newNode(t, m)
	require.NoError(t, os.MkdirAll(n.host.Root()+"/pods", 0o755))
	for _, op := range []string{mounttest.OpList, mounttest.OpMountRefs} {
		m.Inject(mounttest.Fault{Op: op, Err: os.ErrPermission})
	}
	mounter := n.mounter(t, spec(n.disks+"/disk"), "1")
	for range 2 {
		require.NoError(t, mounter.SetUp(t.Context(), volume.MounterArgs{}))
	}
	m.ClearFaults()
	require.NoError(t, n.unmounter(t, "1").TearDown(t.Context()))
}
