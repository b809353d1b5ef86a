package emptydir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A node is a host with the plugin.
type node struct {
	mount.Interface
	dir    string
	host   *volume.Host
	plugin *emptydir.Plugin
}

func newNode(t *testing.T, m mount.Interface) *node {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	return nodeIn(t, m, dir)
}

// nodeIn returns a node whose root is dir, also after another process has used it.
func nodeIn(t require.TestingT, m mount.Interface, dir string) *node {
	require.NoError(t, os.MkdirAll(dir+"/root", 0o755))
	host, err := volume.NewHost(context.Background(), dir+"/root")
	require.NoError(t, err)
	n := &node{m, dir, host, emptydir.New(emptydir.Config{Mounter: m})}
	_, err = volume.NewVolumePluginMgr(context.Background(), host, n.plugin)
	require.NoError(t, err)
	return n
}

func pod(uid types.UID) *v1.Pod { return &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }

func (n *node) mounter(t require.TestingT, s *volume.Spec) volume.Mounter {
	m, err := requestingPlugin{n.plugin}.NewMounter(s, pod("1"))
	require.NoError(t, err)
	return m
}

func (n *node) unmounter(t require.TestingT) volume.Unmounter {
	u, err := n.plugin.NewUnmounter("v", "1")
	require.NoError(t, err)
	return u
}

func onMedium(medium v1.StorageMedium) *volume.Spec {
	return spec("v", v1.EmptyDirVolumeSource{Medium: medium})
}

// optionsOf returns the options of the file system at dir.
func (n *node) optionsOf(t *testing.T, dir string) []string {
	list, err := n.List(t.Context())
	require.NoError(t, err)
	at, ok := mount.Table(list).At(dir)
	require.True(t, ok)
	require.NotZero(t, at.Flags&mount.NoSUID)
	require.NotZero(t, at.Flags&mount.NoDev)
	return at.SuperOptions
}

func machineMemory(t *testing.T) int64 {
	text, err := os.ReadFile("/proc/meminfo")
	require.NoError(t, err)
	var kb int64
	_, err = fmt.Sscanf(string(text), "MemTotal: %d kB", &kb)
	require.NoError(t, err)
	return kb << 10
}

func TestMemorySize(t *testing.T) {
	kb := machineMemory(t) >> 10
	limited := pod("1")
	limited.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{
		Limits: v1.ResourceList{v1.ResourceMemory: resource.MustParse("512Ki")},
	}}}
	for name, test := range map[string]struct {
		sizeLimit, desired *resource.Quantity
		pod                *v1.Pod
		want               int64 // KiB
	}{
		"half":     {nil, nil, pod("1"), kb / 2},
		"zero":     {quantity("0"), quantity("0"), pod("1"), kb / 2},
		"limit":    {quantity("1Mi"), nil, pod("1"), 1024},
		"desired":  {quantity("1Mi"), quantity("64Ki"), pod("1"), 64},
		"smallest": {quantity("1Mi"), quantity("2Mi"), pod("1"), 1024},
		"the pod":  {quantity("1Mi"), nil, limited, 512},
		"tiny":     {quantity("1"), nil, pod("1"), 4},
	} {
		t.Run(name, func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			n := newNode(t, mount.New(mount.Config{}))
			m, err := n.plugin.NewMounter(spec("v", v1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: test.sizeLimit}), test.pod)
			require.NoError(t, err)
			require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{DesiredSize: test.desired}))
			metrics, err := m.GetMetrics(t.Context())
			require.NoError(t, err)
			require.InDelta(t, test.want<<10, metrics.Capacity.Value(), float64(os.Getpagesize()))
			require.NoError(t, n.unmounter(t).TearDown(t.Context()))
		})
	}
}

// A smallNode returns little memory for pods, or an error.
type smallNode struct {
	memory string
	err    error
}

func (n *smallNode) GetNodeAllocatable(context.Context) (v1.ResourceList, error) {
	if n.memory == "" {
		return nil, n.err
	}
	return v1.ResourceList{v1.ResourceMemory: resource.MustParse(n.memory)}, n.err
}

// TestAllocatableMemory: no volume in memory is larger than the memory for pods.
func TestAllocatableMemory(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	machine := newNode(t, mount.New(mount.Config{}))
	small := &smallNode{memory: "1Mi"}
	for name, test := range map[string]struct {
		config    emptydir.Config
		sizeLimit string
		want      int64
	}{
		"nothing said":   {emptydir.Config{Node: small}, "0", 1 << 20},
		"smaller limit":  {emptydir.Config{Node: small}, "64Ki", 64 << 10},
		"larger limit":   {emptydir.Config{Node: small}, "1Ti", 1 << 20},
		"usual":          {emptydir.Config{Node: small, MemorySize: 64 << 10}, "0", 64 << 10},
		"larger usual":   {emptydir.Config{Node: small, MemorySize: 64 << 20}, "0", 1 << 20},
		"of the machine": {emptydir.Config{}, "8E", machineMemory(t)},
	} {
		test.config.Mounter = machine.Interface
		n := &node{machine.Interface, machine.dir, machine.host, emptydir.New(test.config)}
		require.NoError(t, n.plugin.Init(t.Context(), n.host), name)
		m := n.mounter(t, spec("v", v1.EmptyDirVolumeSource{Medium: "Memory", SizeLimit: quantity(test.sizeLimit)}))
		for range 2 {
			require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}), name)
			metrics, err := m.GetMetrics(t.Context())
			require.NoError(t, err)
			require.InDelta(t, test.want, metrics.Capacity.Value(), float64(os.Getpagesize()), name)
			small.memory = "2Mi" // volumes that are set up keep their size
		}
		small.memory = "1Mi"
		require.NoError(t, n.unmounter(t).TearDown(t.Context()))
	}
}

// TestUnknownMemory: without the node's memory no volume in memory is set up.
func TestUnknownMemory(t *testing.T) {
	broken := errors.New("broken")
	for _, of := range []*smallNode{{}, {memory: "0"}, {memory: "-1"}, {memory: "1e99999999"}, {memory: "1Gi", err: broken}} {
		n := newNode(t, mounttest.NewFake(mount.Config{}))
		n.plugin = emptydir.New(emptydir.Config{Mounter: n.Interface, Node: of})
		require.NoError(t, n.plugin.Init(t.Context(), n.host))
		err := n.mounter(t, onMedium("Memory")).SetUp(t.Context(), volume.MounterArgs{})
		require.ErrorContains(t, err, "allocatable memory")
		require.Equal(t, volume.Transient, volume.KindOf(err))
		if of.err != nil {
			require.ErrorIs(t, err, of.err)
		}
		require.NoError(t, n.mounter(t, onMedium("")).SetUp(t.Context(), volume.MounterArgs{}), "on disk")
	}
}

// TestNoSource: a volume without a source is an emptyDir.
func TestNoSource(t *testing.T) {
	n := newNode(t, mounttest.NewFake(mount.Config{}))
	s := volume.NewSpecFromVolume(&v1.Volume{Name: "v"})
	require.True(t, n.plugin.CanSupport(s))
	name, err := n.plugin.GetVolumeName(s)
	require.NoError(t, err)
	require.Equal(t, "v", name)
	m := n.mounter(t, s)
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
	requireOwner(t, m.GetPath(), uint32(os.Getuid()), nobodys, 0o777)
	again, err := n.plugin.ConstructVolumeSpec(t.Context(), "v", m.GetPath())
	require.NoError(t, err)
	require.Equal(t, &v1.EmptyDirVolumeSource{}, again.Spec.Volume.EmptyDir)
	require.NoError(t, n.unmounter(t).TearDown(t.Context()))
	require.False(t, n.plugin.CanSupport(volume.NewSpecFromVolume(&v1.Volume{VolumeSource: v1.VolumeSource{NFS: &v1.NFSVolumeSource{}}})))
}

func TestHugePages(t *testing.T) {
	if !mayMount(t, "HugePages-2Mi") {
		return
	}
	n := newNode(t, mount.New(mount.Config{}))
	m := n.mounter(t, spec("v", v1.EmptyDirVolumeSource{Medium: "HugePages-2Mi", SizeLimit: quantity("4Mi")}))
	group := int64(1234)
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{FsGroup: &group}))
	require.Contains(t, n.optionsOf(t, m.GetPath()), "pagesize=2M")
	metrics, err := m.GetMetrics(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 4<<20, metrics.Capacity.Value())
	requireOwner(t, m.GetPath(), 0, 1234, fs.ModeSetgid|0o777)
	require.NoError(t, n.unmounter(t).TearDown(t.Context()))
}

// nobodys is a group that is not compared: it may come from a directory above.
const nobodys = 1<<32 - 1

func requireOwner(t *testing.T, dir string, user, group uint32, mode fs.FileMode) {
	t.Helper()
	info, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, fs.ModeDir|mode, info.Mode())
	stat := info.Sys().(*syscall.Stat_t)
	require.Equal(t, user, stat.Uid)
	if group != nobodys {
		require.Equal(t, group, stat.Gid)
	}
}

// TestOwnership: a new volume has the group and the mode that its pod requests, for any umask.
func TestOwnership(t *testing.T) {
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		t.Run("on "+string(medium), func(t *testing.T) {
			if !mounttest.RootNamespace(t) {
				return
			}
			defer syscall.Umask(syscall.Umask(0o077))
			n := newNode(t, mount.New(mount.Config{}))
			m := n.mounter(t, onMedium(medium))
			user, group := int64(1000), int64(2000)
			for _, test := range []struct {
				args volume.MounterArgs
				user uint32
				grp  uint32
				mode fs.FileMode
			}{
				{volume.MounterArgs{}, 0, nobodys, 0o777},
				{volume.MounterArgs{FsGroup: &group}, 0, 2000, fs.ModeSetgid | 0o777},
				{volume.MounterArgs{FsUser: &user, FsGroup: &group}, 0, 2000, fs.ModeSetgid | 0o777},
			} {
				for range 2 {
					require.NoError(t, m.SetUp(t.Context(), test.args))
					requireOwner(t, m.GetPath(), test.user, test.grp, test.mode)
				}
				require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}), "whoever asks for no owner")
				other := int64(3000)
				require.ErrorIs(t, m.SetUp(t.Context(), volume.MounterArgs{FsGroup: &other}), volume.ErrAlreadyMounted)
				requireOwner(t, m.GetPath(), test.user, test.grp, test.mode)
				require.NoError(t, n.unmounter(t).TearDown(t.Context()))
			}
		})
	}
}

// TestUnmappedGroup: a group that the user namespace does not map can never own the volume, so the
// error is final and names the group.
func TestUnmappedGroup(t *testing.T) {
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		t.Run("on "+string(medium), func(t *testing.T) {
			if !mounttest.Namespace(t) {
				return
			}
			n := newNode(t, mount.New(mount.Config{}))
			m := n.mounter(t, onMedium(medium))
			group := int64(2000)
			err := m.SetUp(t.Context(), volume.MounterArgs{FsGroup: &group})
			require.ErrorIs(t, err, syscall.EINVAL)
			require.ErrorContains(t, err, m.GetPath()+": group 2000 is not mapped in this user namespace: ")
			require.Equal(t, volume.Final, volume.KindOf(err))
			require.NoDirExists(t, m.GetPath())
		})
	}
}

func TestRefusedArguments(t *testing.T) {
	n := newNode(t, mounttest.NewFake(mount.Config{}))
	bad := int64(-1)
	for name, args := range map[string]volume.MounterArgs{
		"label":        {SELinuxLabel: "system_u:object_r:container_file_t:s0"},
		"size on disk": {DesiredSize: quantity("1Gi")},
		"group":        {FsGroup: &bad},
	} {
		m := n.mounter(t, onMedium(""))
		err := m.SetUp(t.Context(), args)
		require.Equal(t, volume.Final, volume.KindOf(err), name)
		require.NoDirExists(t, n.host.Root()+"/pods", name)
	}
	var refused *field.Error
	err := n.mounter(t, onMedium("Memory")).SetUp(t.Context(), volume.MounterArgs{DesiredSize: quantity("-1")})
	require.ErrorAs(t, err, &refused)
}

func TestBadConfig(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.Error(t, emptydir.New(emptydir.Config{}).Init(t.Context(), host))
	require.Error(t, emptydir.New(emptydir.Config{Mounter: mounttest.NewFake(mount.Config{}), MemorySize: -1}).Init(t.Context(), host))
	_, err = emptydir.New(emptydir.Config{}).NewMounter(onMedium(""), pod("1"))
	require.Error(t, err, "not initialised")
	_, err = emptydir.New(emptydir.Config{}).NewUnmounterAt("/x")
	require.Error(t, err, "not initialised")
}

// TestConstruct: each specification is recovered unchanged, so that SetUp changes nothing.
func TestConstruct(t *testing.T) {
	for _, source := range []v1.EmptyDirVolumeSource{
		{},
		{SizeLimit: quantity("1Gi")},
		{Medium: "Memory"},
		{Medium: "Memory", SizeLimit: quantity("1024Mi")},
		{Medium: "HugePages-1Gi"},
	} {
		t.Run(strings.TrimSpace(fmt.Sprintf("%s %v", source.Medium, source.SizeLimit)), func(t *testing.T) {
			n := newNode(t, mounttest.NewFake(mount.Config{}))
			m := n.mounter(t, spec("v", source))
			group := int64(os.Getgid())
			args := volume.MounterArgs{FsGroup: &group}
			require.NoError(t, m.SetUp(t.Context(), args))
			again := nodeIn(t, n.Interface, n.dir)
			found, err := again.plugin.ConstructVolumeSpec(t.Context(), "v", m.GetPath())
			require.NoError(t, err)
			require.Equal(t, source.Medium, found.Spec.Volume.EmptyDir.Medium)
			if source.SizeLimit != nil {
				require.Zero(t, source.SizeLimit.Cmp(*found.Spec.Volume.EmptyDir.SizeLimit))
			}
			require.NoError(t, again.mounter(t, found.Spec).SetUp(t.Context(), args))
			require.NoError(t, again.mounter(t, spec("v", source)).SetUp(t.Context(), args))
			other := v1.EmptyDirVolumeSource{Medium: "HugePages-4Mi"}
			require.ErrorIs(t, again.mounter(t, spec("v", other)).SetUp(t.Context(), args), volume.ErrAlreadyMounted)
			require.NoError(t, again.unmounter(t).TearDown(t.Context()))
			_, err = again.plugin.ConstructVolumeSpec(t.Context(), "v", m.GetPath())
			require.ErrorIs(t, err, volume.ErrNotMounted)
		})
	}
}

// TestEqualLimits: equal limits in any form are the same volume; another limit is
// another volume.
func TestEqualLimits(t *testing.T) {
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		n := newNode(t, mounttest.NewFake(mount.Config{}))
		setUp := func(limit string) error {
			source := v1.EmptyDirVolumeSource{Medium: medium, SizeLimit: quantity(limit)}
			return n.mounter(t, spec("v", source)).SetUp(t.Context(), volume.MounterArgs{})
		}
		for _, limit := range []string{"1Mi", "1048576", "1024Ki", "1048576000m", "1048.576k"} {
			require.NoError(t, setUp(limit), limit)
		}
		for _, limit := range []string{"0", "1M", "1048577", "2Mi"} {
			require.ErrorIs(t, setUp(limit), volume.ErrAlreadyMounted, limit)
		}
		require.ErrorIs(t, n.mounter(t, onMedium(medium)).SetUp(t.Context(), volume.MounterArgs{}), volume.ErrAlreadyMounted)
		require.NoError(t, n.unmounter(t).TearDown(t.Context()))
	}
}

// TestReboot: after a reboot a volume in memory is gone, and its note is not.
func TestReboot(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	n := newNode(t, mount.New(mount.Config{}))
	m := n.mounter(t, onMedium("Memory"))
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
	require.NoError(t, n.Unmount(t.Context(), m.GetPath()))
	_, err := n.plugin.ConstructVolumeSpec(t.Context(), "v", m.GetPath())
	require.ErrorIs(t, err, volume.ErrNotMounted)
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
	n.optionsOf(t, m.GetPath())
	require.NoError(t, n.Unmount(t.Context(), m.GetPath()))
	require.NoError(t, n.unmounter(t).TearDown(t.Context()))
	require.NoDirExists(t, m.GetPath())
}

// TestSubvolumes: subvolumes of btrfs, which the pod may create, are a part of the volume.
func TestSubvolumes(t *testing.T) {
	testbed.Disk{FSType: "btrfs", Size: 256 << 20, Options: []string{"-q"}}.Run(t, func(t *testing.T, dir string) {
		n := nodeIn(t, mount.New(mount.Config{}), dir)
		m, u := n.mounter(t, onMedium("")), n.unmounter(t)
		require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
		testbed.Subvolume(t, m.GetPath(), "sub")
		testbed.Fill(t, m.GetPath(), "sub/a/b")
		testbed.Subvolume(t, m.GetPath()+"/sub/a", "nested")
		testbed.Snapshot(t, m.GetPath()+"/sub", m.GetPath(), "snapshot")
		used, err := m.GetMetrics(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 9, used.InodesUsed.Value())
		require.NoError(t, u.TearDown(t.Context()))
		require.NoDirExists(t, m.GetPath())
	})
}

// TestTearDownLeavesMounts: mounts in a volume stay, with their files.
func TestTearDownLeavesMounts(t *testing.T) {
	for _, medium := range []v1.StorageMedium{"", "Memory"} {
		t.Run("on "+string(medium), func(t *testing.T) {
			if mounttest.Namespace(t) {
				testTearDownLeavesMounts(t, medium)
			}
		})
	}
}

func testTearDownLeavesMounts(t *testing.T, medium v1.StorageMedium) {
	n := newNode(t, mount.New(mount.Config{}))
	m, u := n.mounter(t, onMedium(medium)), n.unmounter(t)
	require.NoError(t, m.SetUp(t.Context(), volume.MounterArgs{}))
	share, inside := n.dir+"/share", m.GetPath()+"/a/b"
	require.NoError(t, os.Mkdir(share, 0o755))
	require.NoError(t, os.WriteFile(share+"/precious", nil, 0o600))
	require.NoError(t, os.MkdirAll(inside, 0o755))
	require.NoError(t, n.Mount(t.Context(), mount.Request{Source: share, Target: inside}))
	err := u.TearDown(t.Context())
	require.FileExists(t, share+"/precious")
	require.FileExists(t, inside+"/precious")
	if medium == "" {
		var left *scrub.UnremovableError
		require.ErrorAs(t, err, &left)
		require.Equal(t, volume.Uncertain, volume.KindOf(err))
	} else {
		require.ErrorIs(t, err, mount.ErrBusy)
		require.ErrorContains(t, err, "a mount is inside, at \""+inside+"\"")
		require.Equal(t, volume.Transient, volume.KindOf(err))
	}
	require.NoError(t, n.Unmount(t.Context(), inside))
	require.NoError(t, u.TearDown(t.Context()))
	require.FileExists(t, share+"/precious")
	require.NoDirExists(t, m.GetPath())
}
