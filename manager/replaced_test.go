package manager_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
)

// TestReplacedMountIsReported: a foreign mount in place of a volume's mount stays and is reported. When the
// foreign mount has gone, the volume is mounted again.
func TestReplacedMountIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		time.Sleep(time.Minute)
		ours := n.mountsBelow("/1/")[0]
		n.replaceMount(ours.Mountpoint, mount.Request{Source: "theirs", FSType: "tmpfs"})
		time.Sleep(10 * time.Second)
		reasons := n.reasons() // it may have looked in between
		require.True(t, slices.Contains(reasons, manager.VolumeReplaced) || slices.Contains(reasons, manager.VolumeVanished), reasons)
		require.Contains(t, reasons, manager.FailedMount)
		require.Equal(t, "failed", m.State().Volumes[0].Pods[0].Phase())
		require.Equal(t, "theirs", n.mountsBelow("/1/")[0].Source)
		require.NoError(t, n.kernel.Unmount(t.Context(), ours.Mountpoint))
		time.Sleep(2 * time.Second) // however long the pause before the next try is
		require.NoError(t, m.WaitForAttachAndMount(endedContext(t), pod))
		require.Equal(t, ours.Root, n.mountsBelow("/1/")[0].Root)

		// Another process mounts the same volume again: no repair is due.
		n.replaceMount(ours.Mountpoint, mount.Request{Source: ours.Root})
		time.Sleep(10 * time.Second)
		n.up(m, pod)
		n.source.RemovePod("1")
		n.down(m, pod)
		require.Empty(t, n.mountsBelow("/1/"))
		stop()
	})
}

// replaceMount unmounts the volume and mounts something else at its path. It tries again if the
// manager has repaired the volume in between.
func (n *node) replaceMount(at string, by mount.Request) {
	n.Helper()
	by.Target = at
	for {
		require.NoError(n, n.kernel.Unmount(n.Context(), at))
		err := n.kernel.Mount(n.Context(), by)
		if !errors.Is(err, mount.ErrMounted) {
			require.NoError(n, err)
			return
		}
	}
}

// TestForeignMountBelow: a foreign mount in a volume makes its tear-down fail. When the foreign
// mount is unmounted, the tear-down is retried at once, even during a long backoff.
func TestForeignMountBelow(t *testing.T) {
	for name, fake := range map[string]volumetest.FakeConfig{"in a pod": perPod, "for all": {NoAttach: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, fake)
				n.claim("a")
				require.NoError(t, os.MkdirAll(n.dir+"/disk-a/sub", 0o755))
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				defer stop()
				at := n.mountsBelow("/1/")[0].Mountpoint
				if name == "for all" {
					at = n.mountsBelow("/mounts/")[0].Mountpoint
				}
				for _, below := range []string{at + "/sub", at + "/other"} {
					require.NoError(t, os.MkdirAll(strings.Replace(below, at, n.dir+"/disk-a", 1), 0o755))
					require.NoError(t, n.kernel.Mount(t.Context(), mount.Request{Source: "theirs", FSType: "tmpfs", Target: below}))
				}
				n.source.RemovePod("1")
				time.Sleep(time.Hour) // the pause is minutes long by now
				require.Len(t, n.mountsBelow(at), 3)
				require.NoError(t, n.kernel.Unmount(t.Context(), at+"/sub"))
				time.Sleep(2 * time.Second)
				require.Len(t, n.mountsBelow(at), 2, "one is left")
				require.NoError(t, n.kernel.Unmount(t.Context(), at+"/other"))
				time.Sleep(2 * time.Second)
				require.Empty(t, n.mountsBelow(at))
				require.NoError(t, m.WaitForUnmount(endedContext(t), pod))
			})
		})
	}
}

// A hangingKernel does not answer queries for the mount at a path.
type hangingKernel struct {
	*mounttest.Fake
	mu   sync.Mutex
	path string
}

func (h *hangingKernel) setHangingPath(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.path = path
}

func (h *hangingKernel) MountID(ctx context.Context, path string) (uint64, error) {
	h.mu.Lock()
	hangs := path == h.path
	h.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return 0, context.Cause(ctx)
	}
	return h.Fake.MountID(ctx, path)
}

// TestHangingMountCheckDelaysNoOther: a mount check that hangs at one path delays no other volume.
func TestHangingMountCheckDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, perPod)
		n.claim("a")
		n.claim("b")
		kernel := &hangingKernel{Fake: n.kernel}
		n.config.Mounter = kernel
		first, second := podWith("1", "a"), podWith("2", "b")
		m, stop := n.runUp(first)
		time.Sleep(time.Minute)
		kernel.setHangingPath(n.mountsBelow("/1/")[0].Mountpoint)
		require.NoError(t, n.kernel.Mount(t.Context(), mount.Request{Source: "any", Target: n.dir + "/disk-b", FSType: "tmpfs"}))
		require.NoError(t, n.kernel.Unmount(t.Context(), n.dir+"/disk-b"))
		time.Sleep(500 * time.Millisecond)
		begin := time.Now()
		n.source.SetPod(second)
		n.up(m, second)
		require.Less(t, time.Since(begin), time.Second, "of a clock that is not the machine's")
		require.NoError(t, n.kernel.Unmount(t.Context(), n.mountsBelow("/2/")[0].Mountpoint))
		time.Sleep(10 * time.Second)
		require.Len(t, n.mountsBelow("/2/"), 1)
		require.Contains(t, n.reasons(), manager.VolumeVanished)
		stop()
	})
}

// An interferingPlugin counts the calls of SetUp, and calls interfere after the first.
type interferingPlugin struct {
	*volumetest.FakePlugin
	setUps    atomic.Int64
	interfere func(path string)
}

type interferingMounter struct {
	volume.Mounter
	plugin *interferingPlugin
}

func (p *interferingPlugin) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	m, err := p.FakePlugin.NewMounter(spec, pod)
	return interferingMounter{m, p}, err
}

func (m interferingMounter) SetUp(ctx context.Context, args volume.MounterArgs) error {
	err := m.Mounter.SetUp(ctx, args)
	if m.plugin.setUps.Add(1) == 1 && m.plugin.interfere != nil {
		m.plugin.interfere(m.GetPath())
	}
	return err
}

// TestReplacedDuringSetUp: after a restart SetUp is called once for an existing mount, and again
// if another process replaces the mount during the call.
func TestReplacedDuringSetUp(t *testing.T) {
	for name, test := range map[string]struct {
		replaced bool
		phase    string
	}{"it stays": {false, "mounted"}, "it is replaced": {true, "failed"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, perPod)
				n.claim("a")
				pod := podWith("1", "a")
				_, stop := n.runUp(pod)
				stop()

				plugin := &interferingPlugin{FakePlugin: n.plugin}
				if test.replaced {
					plugin.interfere = func(path string) { n.replaceMount(path, mount.Request{Source: "theirs", FSType: "tmpfs"}) }
				}
				var err error
				n.config.Plugins, err = volume.NewVolumePluginMgr(t.Context(), n.host, plugin)
				require.NoError(t, err)
				m, stop := n.run()
				defer stop()
				synctest.Wait()
				require.Equal(t, test.phase, m.State().Volumes[0].Pods[0].Phase())
				require.Equal(t, test.replaced, plugin.setUps.Load() > 1)
			})
		})
	}
}

// TestVanishedMountIsRestored: a volume that another process unmounts is mounted again within a
// second.
func TestVanishedMountIsRestored(t *testing.T) {
	for name, fake := range map[string]volumetest.FakeConfig{"the pod's": perPod, "the one for all": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, fake)
				n.claim("a")
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				before := n.mountCount()
				for range 3 {
					time.Sleep(time.Minute)
					target := n.mountsBelow("/plugins/")
					if len(target) == 0 {
						target = n.mountsBelow("/1/")
					}
					require.NoError(t, n.kernel.Unmount(t.Context(), target[0].Mountpoint))
					time.Sleep(time.Second)
					require.Equal(t, before, stableMountCount(n))
					n.up(m, pod)
				}
				require.Contains(t, n.reasons(), manager.VolumeVanished)
				stop()
			})
		})
	}
}
