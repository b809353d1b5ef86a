package recycler_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/util/progress"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A localNode recycles directories of this machine, mounted for real.
type localNode struct {
	*testing.T
	host    *volume.Host
	mounter mount.Interface
	mgr     *volume.VolumePluginMgr
	disks   string
	config  recycler.LocalConfig
}

// newLocalNode returns nil where the test runs again in a namespace of its own.
func newLocalNode(t *testing.T) *localNode {
	t.Helper()
	if !mounttest.Namespace(t) {
		return nil
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	mounter := mount.New(mount.Config{})
	t.Cleanup(func() { require.NoError(t, mounter.Close()) })
	n := &localNode{T: t, mounter: mounter, disks: dir + "/disks"}
	require.NoError(t, errors.Join(os.Mkdir(dir+"/root", 0o755), os.Mkdir(n.disks, 0o755)))
	n.host, err = volume.NewHost(t.Context(), dir+"/root")
	require.NoError(t, err)
	n.mgr, err = volume.NewVolumePluginMgr(t.Context(), n.host, local.New(local.Config{Mounter: n.mounter, Roots: []string{n.disks}}))
	require.NoError(t, err)
	n.config = recycler.LocalConfig{Host: n.host, Plugin: n.mgr.FindPluginBySpec}
	return n
}

func (n *localNode) recycle(ctx context.Context, spec *volume.Spec) error {
	n.Helper()
	r, err := recycler.NewLocal(n.config)
	require.NoError(n, err)
	return r.Recycle(ctx, spec.Name(), spec)
}

// disk returns a volume with things in it.
func (n *localNode) disk(name string, options ...string) (*volume.Spec, string) {
	n.Helper()
	dir := filepath.Join(n.disks, name)
	for i := range 30 {
		sub := fmt.Sprintf("%s/%d/deep/er", dir, i)
		require.NoError(n, os.MkdirAll(sub, 0o755))
		require.NoError(n, os.WriteFile(sub+"/file", []byte("data"), 0o600))
		if err := os.Symlink(n.disks, fmt.Sprintf("%s/%d/link", dir, i)); !errors.Is(err, fs.ErrExist) {
			require.NoError(n, err)
		}
	}
	mode := v1.PersistentVolumeFilesystem
	return volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: dir}},
			VolumeMode:             &mode,
			MountOptions:           options,
		},
	}, false), dir
}

// requireNothingLeft: neither a mount below the host's root nor a directory of a
// volume.
func (n *localNode) requireNothingLeft() {
	n.Helper()
	table, err := n.mounter.List(n.Context())
	require.NoError(n, err)
	for _, info := range table {
		require.False(n, strings.HasPrefix(info.Mountpoint, n.host.Root()+"/"), info.Mountpoint)
	}
	own, err := n.host.PluginDir(recycler.LocalName)
	require.NoError(n, err)
	left, err := filepath.Glob(own + "/*")
	require.NoError(n, err)
	require.Empty(n, left)
}

func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestLocal(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	spec, dir := n.disk("one")
	other, otherDir := n.disk("other")
	for range 2 {
		require.NoError(t, n.recycle(t.Context(), spec))
		requireEmpty(t, dir)
	}
	require.FileExists(t, otherDir+"/0/deep/er/file")
	n.requireNothingLeft()

	n.config.Keep = []string{"0"}
	require.NoError(t, n.recycle(t.Context(), other))
	require.FileExists(t, otherDir+"/0/deep/er/file")
	n.requireNothingLeft()
}

// TestLocalProgress: the receiver of the caller's context gets the progress, with the name of the volume in the path.
func TestLocalProgress(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	spec, dir := n.disk("one")
	n.config.PerSecond = 1
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	scrubbed := make(chan string, 100)
	_ = n.recycle(progress.With(ctx, func(r progress.Report) {
		if r.Step == progress.Scrub {
			scrubbed <- r.Object
			cancel()
		}
	}), spec)
	require.Contains(t, <-scrubbed, "/one/")
	n.config.PerSecond = 0
	require.NoError(t, n.recycle(t.Context(), spec))
	requireEmpty(t, dir)
	n.requireNothingLeft()
}

// TestLocalRefuses checks the refused volumes and configurations, and that a refused volume
// is unchanged.
func TestLocalRefuses(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	readOnly, dir := n.disk("one", "ro")
	require.ErrorIs(t, n.recycle(t.Context(), readOnly), volume.ErrNotSupported)
	block, _ := n.disk("block")
	mode := v1.PersistentVolumeBlock
	block.PersistentVolume.Spec.VolumeMode = &mode
	require.ErrorIs(t, n.recycle(t.Context(), block), volume.ErrNotSupported)
	require.Error(t, n.recycle(t.Context(), nil))
	other := volume.NewSpecFromVolume(&v1.Volume{Name: "x"})
	require.ErrorIs(t, n.recycle(t.Context(), other), volume.ErrNoPluginMatched)
	r, err := recycler.NewLocal(n.config)
	require.NoError(t, err)
	good, _ := n.disk("good")
	require.Error(t, r.Recycle(t.Context(), "../x", good))
	require.FileExists(t, dir+"/0/deep/er/file")
	n.requireNothingLeft()
	for _, bad := range []recycler.LocalConfig{
		{}, {Host: n.host}, {Host: n.host, Plugin: n.mgr.FindPluginBySpec, Workers: -1}, {Host: n.host, Plugin: n.mgr.FindPluginBySpec, PerSecond: -1},
	} {
		_, err := recycler.NewLocal(bad)
		require.Error(t, err)
	}
}

// TestLocalRefusesSubmounts checks that a mount inside a volume is not scrubbed and that the
// volume is not reported as empty. The error is final: waiting does not remove the mount.
func TestLocalRefusesSubmounts(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	spec, dir := n.disk("one")
	inside := mount.Request{Source: "canaries", FSType: "tmpfs", Target: dir + "/0/deep"}
	require.NoError(t, n.mounter.Mount(t.Context(), inside))
	require.NoError(t, os.WriteFile(inside.Target+"/canary", nil, 0o600))
	err := n.recycle(t.Context(), spec)
	require.ErrorIs(t, err, mount.ErrSubmounts)
	require.Equal(t, volume.Final, volume.KindOf(err), "%v", err)
	require.FileExists(t, inside.Target+"/canary")
	require.FileExists(t, dir+"/1/deep/er/file")
	n.requireNothingLeft()
	require.NoError(t, n.mounter.Unmount(t.Context(), inside.Target))
	require.NoError(t, n.recycle(t.Context(), spec))
}

// TestLocalIsNotEmpty checks that a volume with remaining entries is not recycled, and that
// the error names them.
func TestLocalIsNotEmpty(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	spec, dir := n.disk("one")
	// The file appears after the scrub and before the check for remaining entries.
	n.config.Plugin = func(spec *volume.Spec) (volume.VolumePlugin, error) {
		plugin, err := n.mgr.FindPluginBySpec(spec)
		return lateWriterPlugin{plugin, dir}, err
	}
	err := n.recycle(t.Context(), spec)
	var left *scrub.NotEmptyError
	require.ErrorAs(t, err, &left)
	require.ErrorContains(t, err, "late")
	n.requireNothingLeft()
	n.config.Plugin = n.mgr.FindPluginBySpec
	require.NoError(t, n.recycle(t.Context(), spec))
	requireEmpty(t, dir)
}

// A lateWriterPlugin writes a file into a volume before the check for remaining entries.
type lateWriterPlugin struct {
	volume.VolumePlugin
	dir string
}

func (l lateWriterPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	if pod.UID == "recycler-verify" {
		if err := os.WriteFile(l.dir+"/late", nil, 0o600); err != nil {
			return nil, err
		}
	}
	return l.VolumePlugin.NewMounter(spec, pod)
}

// TestLocalIsNotMounted checks that a volume is not recycled if its plugin reports a mount
// that does not exist.
func TestLocalIsNotMounted(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	spec, dir := n.disk("one")
	n.config.Plugin = func(spec *volume.Spec) (volume.VolumePlugin, error) {
		plugin, err := n.mgr.FindPluginBySpec(spec)
		return idlePlugin{plugin}, err
	}
	err := n.recycle(t.Context(), spec)
	require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
	require.FileExists(t, dir+"/0/deep/er/file")
	n.requireNothingLeft()
}

// An idlePlugin creates the directory of a volume without a mount.
type idlePlugin struct{ volume.VolumePlugin }

func (p idlePlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.VolumePlugin.NewMounter(spec, pod)
	return idleMounter{m}, err
}

type idleMounter struct{ volume.Mounter }

func (idleMounter) SetUpAt(_ context.Context, dir string, _ volume.MounterArgs) error {
	return os.MkdirAll(dir, 0o750)
}

// TestLocalIsInterrupted checks that the next call finishes the work of a call that was
// interrupted at any point and by any cause.
func TestLocalIsInterrupted(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	spec, dir := n.disk("one")
	for _, given := range []time.Duration{0, time.Millisecond, 2 * time.Millisecond, 5 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), given)
		if err := n.recycle(ctx, spec); err != nil {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		cancel()
		n.requireNothingLeft()
	}
	// As if a process had been killed.
	own, err := n.host.PluginDir(recycler.LocalName)
	require.NoError(t, err)
	for _, left := range []string{"/one/scrub", "/one/verify"} {
		require.NoError(t, os.MkdirAll(own+left, 0o750))
		require.NoError(t, n.mounter.Mount(t.Context(), mount.Request{Source: dir, Target: own + left}))
	}
	n.disk("one")
	require.NoError(t, n.recycle(t.Context(), spec))
	requireEmpty(t, dir)
	n.requireNothingLeft()
}

// TestLocalConcurrently checks that one call at a time works on a volume, and that calls on
// several volumes work at once.
func TestLocalConcurrently(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	r, err := recycler.NewLocal(n.config)
	require.NoError(t, err)
	var wg sync.WaitGroup
	var dirs []string
	for i := range 4 {
		spec, dir := n.disk(fmt.Sprint("disk", i))
		dirs = append(dirs, dir)
		for range 4 {
			wg.Go(func() {
				if err := r.Recycle(t.Context(), spec.Name(), spec); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for _, dir := range dirs {
		requireEmpty(t, dir)
	}
	n.requireNothingLeft()
}

// TestLocalEqualNamesAreSerialized checks that recycling two volumes of one name is serialized: a name has
// one directory.
func TestLocalEqualNamesAreSerialized(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	var working, most atomic.Int32
	n.config.Plugin = func(spec *volume.Spec) (volume.VolumePlugin, error) {
		plugin, err := n.mgr.FindPluginBySpec(spec)
		return countingPlugin{plugin, &working, &most}, err
	}
	r, err := recycler.NewLocal(n.config)
	require.NoError(t, err)
	var wg sync.WaitGroup
	var dirs []string
	for i := range 8 {
		spec, dir := n.disk(fmt.Sprint("disk", i))
		dirs = append(dirs, dir)
		wg.Go(func() {
			if err := r.Recycle(t.Context(), "one", spec); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 1, most.Load())
	for _, dir := range dirs {
		requireEmpty(t, dir)
	}
	n.requireNothingLeft()
}

// A countingPlugin records the number of volumes that are mounted at a time.
type countingPlugin struct {
	volume.VolumePlugin
	working, most *atomic.Int32
}

func (c countingPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := c.VolumePlugin.NewMounter(spec, pod)
	return countingMounter{m, c}, err
}

type countingMounter struct {
	volume.Mounter
	countingPlugin
}

func (c countingMounter) SetUpAt(ctx context.Context, dir string, args volume.MounterArgs) error {
	if now := c.working.Add(1); now > c.most.Load() {
		c.most.Store(now)
	}
	time.Sleep(time.Millisecond) // for others to come
	defer c.working.Add(-1)
	return c.Mounter.SetUpAt(ctx, dir, args)
}

// TestLocalUncertain checks that the error is uncertain if the volume cannot be taken down.
func TestLocalUncertain(t *testing.T) {
	n := newLocalNode(t)
	if n == nil {
		return
	}
	spec, dir := n.disk("one")
	n.config.Plugin = func(spec *volume.Spec) (volume.VolumePlugin, error) {
		plugin, err := n.mgr.FindPluginBySpec(spec)
		return stuckPlugin{plugin}, err
	}
	err := n.recycle(t.Context(), spec)
	require.ErrorIs(t, err, syscall.EBUSY)
	require.Equal(t, volume.Uncertain, volume.KindOf(err))
	n.config.Plugin = n.mgr.FindPluginBySpec
	require.NoError(t, n.recycle(t.Context(), spec))
	requireEmpty(t, dir)
	n.requireNothingLeft()
}

// A stuckPlugin cannot be taken down once it is up.
type stuckPlugin struct{ volume.VolumePlugin }

func (s stuckPlugin) NewUnmounter(name string, uid types.UID) (volume.Unmounter, error) {
	u, err := s.VolumePlugin.NewUnmounter(name, uid)
	return stuckUnmounter{u}, err
}

type stuckUnmounter struct{ volume.Unmounter }

func (s stuckUnmounter) TearDownAt(ctx context.Context, dir string) error {
	if _, err := os.Lstat(dir); err == nil {
		return fmt.Errorf("%w: %w", volume.ErrTransient, syscall.EBUSY)
	}
	return s.Unmounter.TearDownAt(ctx, dir)
}
