package nfs_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// newHost returns a host with the plugin.
func newHost(t *testing.T, config nfs.Config) (*volume.Host, *nfs.Plugin) {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	plugin := nfs.New(config)
	require.NoError(t, plugin.Init(t.Context(), host))
	return host, plugin
}

func setUp(t *testing.T, plugin *nfs.Plugin, spec *volume.Spec, uid types.UID, args volume.MounterArgs) (string, error) {
	t.Helper()
	mounter, err := plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}})
	require.NoError(t, err)
	return mounter.GetPath(), mounter.SetUp(t.Context(), args)
}

func tearDown(t *testing.T, plugin *nfs.Plugin, spec *volume.Spec, uid types.UID) error {
	t.Helper()
	unmounter, err := plugin.NewUnmounter(spec.Name(), uid)
	require.NoError(t, err)
	return unmounter.TearDown(t.Context())
}

func TestInitRefuses(t *testing.T) {
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.ErrorContains(t, nfs.New(nfs.Config{}).Init(t.Context(), host), "Config.Mounter")
	fake := mounttest.NewFake(mount.Config{})
	require.ErrorContains(t, nfs.New(nfs.Config{Mounter: fake, Transport: 7}).Init(t.Context(), host), "transport")
	_, err = nfs.New(nfs.Config{Mounter: fake}).NewUnmounter("v", "1")
	require.Error(t, err, "not initialised")
	_, err = nfs.New(nfs.Config{Mounter: fake}).NewMounter(writable("/x"), &v1.Pod{})
	require.Error(t, err, "not initialised")
	_, err = nfs.New(nfs.Config{Mounter: fake}).ConstructVolumeSpec(t.Context(), "v", "/x")
	require.Error(t, err, "not initialised")
}

func TestBlockVolumes(t *testing.T) {
	_, plugin := newHost(t, nfs.Config{Mounter: mounttest.NewFake(mount.Config{})})
	spec, block := writable("/x"), v1.PersistentVolumeBlock
	spec.PersistentVolume.Spec.VolumeMode = &block
	_, err := plugin.NewMounter(spec, &v1.Pod{})
	require.ErrorIs(t, err, volume.ErrNotSupported)
}

// TestArgs: arguments that NFS cannot honour are refused by name, and owners are ignored.
func TestArgs(t *testing.T) {
	_, plugin := newHost(t, nfs.Config{Mounter: mounttest.NewFake(mount.Config{})})
	size, group := resource.MustParse("1Gi"), int64(5)
	for name, args := range map[string]volume.MounterArgs{
		"DesiredSize": {DesiredSize: &size}, "SELinuxLabel": {SELinuxLabel: "a"},
	} {
		_, err := setUp(t, plugin, writable("/x"), "1", args)
		require.ErrorIs(t, err, volume.ErrNotSupported)
		require.ErrorContains(t, err, name)
	}
	_, err := setUp(t, plugin, writable("/x"), "1", volume.MounterArgs{FsGroup: &group, FsUser: &group})
	require.NoError(t, err, "the server has the owners in its hands")
}

// refusingMounter is a kernel whose servers have no version 4.
type refusingMounter struct {
	mount.Interface
	helper error
	tried  []string
}

func (r *refusingMounter) Mount(ctx context.Context, req mount.Request) error {
	r.tried = append(r.tried, fmt.Sprint(req.Helper, strings.Join(req.Options, ",")))
	if req.Helper == mount.HelperNever {
		return &mount.Error{Op: "mount", Err: syscall.EPROTONOSUPPORT}
	}
	if r.helper != nil {
		return &mount.Error{Op: "mount", Err: r.helper}
	}
	return r.Interface.Mount(ctx, req)
}

// TestVersion3 checks that the program mounts from a server without version 4, if the
// program exists and neither options nor transport forbid it.
func TestVersion3(t *testing.T) {
	missing := &mount.HelperError{Helper: "mount.nfs", Err: fmt.Errorf("%w: %w", exec.ErrNotFound, errors.ErrUnsupported)}
	for _, test := range []struct {
		transport nfs.Transport
		options   []string
		helper    error
		tried     []string
		errs      []error
	}{
		{tried: []string{"1", "2vers=3"}},
		{helper: missing, tried: []string{"1", "2vers=3"}, errs: []error{syscall.EPROTONOSUPPORT, exec.ErrNotFound}},
		{options: []string{"vers=3"}, tried: []string{"2vers=3"}},
		{options: []string{"vers=3"}, helper: missing, tried: []string{"2vers=3"}, errs: []error{exec.ErrNotFound}},
		{options: []string{"vers=4.1"}, tried: []string{"1vers=4.1"}, errs: []error{syscall.EPROTONOSUPPORT}},
		{transport: nfs.Direct, tried: []string{"1"}, errs: []error{syscall.EPROTONOSUPPORT}},
		{transport: nfs.Helper, tried: []string{"2"}},
	} {
		kernel := &refusingMounter{Interface: mounttest.NewFake(mount.Config{}), helper: test.helper}
		_, plugin := newHost(t, nfs.Config{Mounter: kernel, Transport: test.transport})
		dir, err := setUp(t, plugin, writable("/x", test.options...), "1", volume.MounterArgs{})
		require.Equal(t, test.tried, kernel.tried)
		if test.errs == nil {
			require.NoError(t, err)
			require.DirExists(t, dir)
			continue
		}
		for _, want := range test.errs {
			require.ErrorIs(t, err, want)
		}
		require.NoDirExists(t, dir)
	}
}

// TestOneMountPerExport: pods share the mount of an export that they want with like
// options, and the last one takes it with it.
func TestOneMountPerExport(t *testing.T) {
	fake := mounttest.NewFake(mount.Config{})
	host, plugin := newHost(t, nfs.Config{Mounter: fake, OneMountPerExport: true})
	own, err := host.PluginDir(nfs.PluginName)
	require.NoError(t, err)
	exports := func() (n int) {
		table, err := fake.List(t.Context())
		require.NoError(t, err)
		for _, info := range table {
			if filepath.Dir(filepath.Dir(info.Mountpoint)) == own {
				n++
			}
		}
		return n
	}
	a, hard := writable("/a"), writable("/a", "hard", "ro")
	same := writable("//a/", "noexec")
	for i, spec := range []*volume.Spec{a, same, a, hard} {
		dir, err := setUp(t, plugin, spec, types.UID(fmt.Sprint(i)), volume.MounterArgs{ReadOnly: i == 2})
		require.NoError(t, err)
		table, err := fake.List(t.Context())
		require.NoError(t, err)
		at, ok := mount.Table(table).At(dir)
		require.True(t, ok)
		require.Equal(t, i >= 2, at.Flags&mount.ReadOnly != 0, "each pod has its own flags")
		require.Equal(t, i == 1, at.Flags&mount.NoExec != 0)
	}
	require.Equal(t, 2, exports())
	require.NoError(t, tearDown(t, plugin, hard, "3"))
	require.Equal(t, 1, exports())
	for i, spec := range []*volume.Spec{a, same, a} {
		require.Equal(t, 1, exports())
		require.NoError(t, tearDown(t, plugin, spec, types.UID(fmt.Sprint(i))))
	}
	require.Zero(t, exports())
	left, err := filepath.Glob(own + "/mounts/*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestExportOfEarlierProcess checks that a call of a new process about another volume takes down the
// exports of a killed process, and that an export which cannot be unmounted is taken down
// later.
func TestExportOfEarlierProcess(t *testing.T) {
	fake := mounttest.NewFake(mount.Config{})
	host, plugin := newHost(t, nfs.Config{Mounter: fake, OneMountPerExport: true})
	spec := writable("/a")
	dir, err := setUp(t, plugin, spec, "1", volume.MounterArgs{})
	require.NoError(t, err)
	require.NoError(t, fake.Unmount(t.Context(), dir)) // as if it was killed here

	own, err := host.PluginDir(nfs.PluginName)
	require.NoError(t, err)
	next := nfs.New(nfs.Config{Mounter: fake})
	require.NoError(t, next.Init(t.Context(), host))
	fake.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Err: syscall.EBUSY})
	require.NoError(t, tearDown(t, next, writable("/b"), "2"), "it is about another")
	fake.ClearFaults()
	require.NoError(t, tearDown(t, next, writable("/b"), "2"))
	left, err := filepath.Glob(own + "/mounts/*")
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestExportIsBusy checks that a TearDown which cannot unmount its export returns an
// uncertain error, and that the next TearDown finishes.
func TestExportIsBusy(t *testing.T) {
	fake := mounttest.NewFake(mount.Config{})
	host, plugin := newHost(t, nfs.Config{Mounter: fake, OneMountPerExport: true})
	spec := writable("/a")
	dir, err := setUp(t, plugin, spec, "1", volume.MounterArgs{})
	require.NoError(t, err)
	own, err := host.PluginDir(nfs.PluginName)
	require.NoError(t, err)
	places, err := filepath.Glob(own + "/mounts/*")
	require.NoError(t, err)
	require.Len(t, places, 1)
	fake.Inject(mounttest.Fault{Op: mounttest.OpUnmount, Path: places[0], Err: syscall.EBUSY})
	err = tearDown(t, plugin, spec, "1")
	require.ErrorIs(t, err, syscall.EBUSY)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	require.NoDirExists(t, dir)
	fake.ClearFaults()
	require.NoError(t, tearDown(t, plugin, spec, "1"))
	require.NoDirExists(t, places[0])
}

// A meddlingMounter calls before ahead of each bind mount.
type meddlingMounter struct {
	mount.Interface
	before func(req mount.Request)
}

func (m *meddlingMounter) Mount(ctx context.Context, req mount.Request) error {
	if req.FSType == "" && m.before != nil {
		m.before(req)
	}
	return m.Interface.Mount(ctx, req)
}

// TestExportIsTaken unmounts the export just before it is bound, as another process might:
// the pod gets the export all the same, or nothing.
func TestExportIsTaken(t *testing.T) {
	fake := mounttest.NewFake(mount.Config{})
	kernel, times := &meddlingMounter{Interface: fake}, 0
	kernel.before = func(req mount.Request) {
		if times--; times >= 0 {
			require.NoError(t, fake.Unmount(t.Context(), req.Source))
		}
	}
	_, plugin := newHost(t, nfs.Config{Mounter: kernel, OneMountPerExport: true})
	spec := writable("/a")
	times = 2
	dir, err := setUp(t, plugin, spec, "1", volume.MounterArgs{})
	require.NoError(t, err)
	table, err := fake.List(t.Context())
	require.NoError(t, err)
	at, ok := mount.Table(table).At(dir)
	require.True(t, ok)
	require.Equal(t, "nfs", at.FSType)

	times = 1 << 20
	dir, err = setUp(t, plugin, spec, "2", volume.MounterArgs{})
	require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
	require.NoDirExists(t, dir)
	times = 0
	require.NoError(t, tearDown(t, plugin, spec, "1"))
	table, err = fake.List(t.Context())
	require.NoError(t, err)
	require.Len(t, table, 1, "the root")
}

// TestBindGivesUp checks that no mount remains if ctx ends just before the pod's mount.
func TestBindGivesUp(t *testing.T) {
	fake := mounttest.NewFake(mount.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	kernel := &meddlingMounter{Interface: fake, before: func(mount.Request) { cancel() }}
	_, plugin := newHost(t, nfs.Config{Mounter: kernel, OneMountPerExport: true})
	mounter, err := plugin.NewMounter(writable("/a"), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	require.NoError(t, err)
	err = mounter.SetUp(ctx, volume.MounterArgs{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
	require.NoDirExists(t, mounter.GetPath())
	require.NoError(t, tearDown(t, plugin, writable("/b"), "2")) // if there was not even time to undo
	table, err := fake.List(t.Context())
	require.NoError(t, err)
	require.Len(t, table, 1, "the root")
}

// TestOwnDirectories checks that a volume in the directory of the exports is refused.
func TestOwnDirectories(t *testing.T) {
	fake := mounttest.NewFake(mount.Config{})
	host, plugin := newHost(t, nfs.Config{Mounter: fake})
	own, err := host.PluginDir(nfs.PluginName)
	require.NoError(t, err)
	mounter, err := plugin.NewMounter(writable("/a"), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	require.NoError(t, err)
	unmounter, err := plugin.NewUnmounter("v", "1")
	require.NoError(t, err)
	for _, dir := range []string{own + "/mounts", own + "/mounts/x", own + "//mounts/./x"} {
		require.ErrorAs(t, mounter.SetUpAt(t.Context(), dir, volume.MounterArgs{}), new(*field.Error))
		require.ErrorAs(t, unmounter.TearDownAt(t.Context(), dir), new(*field.Error))
	}
	require.NoDirExists(t, own)
}
