package manager_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// own is a plugin whose volumes each pod has for itself.
var own = volumetest.FakeConfig{NoAttach: true, NoDeviceMount: true}

func (n *node) reasons() []string {
	return n.reasonsOf(func(manager.Event) bool { return true })
}

// warnings returns the reasons of events that tell of what went wrong.
func (n *node) warnings() []string {
	return n.reasonsOf(func(e manager.Event) bool { return e.Type == v1.EventTypeWarning })
}

func (n *node) reasonsOf(is func(manager.Event) bool) []string {
	synctest.Wait() // events come after those who wait are told
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []string
	for _, e := range n.events {
		if is(e) {
			all = append(all, e.Reason)
		}
	}
	return all
}

// A volume whose server does not answer is one volume: others come up, as many as there
// are.
func TestDeadServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.config.Workers = 2
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: 24 * time.Hour, Times: 5})
		m, stop := n.run()
		var dead []*v1.Pod
		for _, uid := range []string{"1", "2", "3", "4", "5"} {
			n.claim("dead-" + uid)
			dead = append(dead, podWith(types.UID(uid), "dead-"+uid))
		}
		n.source.SetPod(dead...)
		time.Sleep(time.Minute)
		n.claim("a")
		alive := podWith("6", "a")
		n.source.SetPod(alive)
		n.up(m, alive)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorContains(t, m.WaitForAttachAndMount(ctx, dead[0]), "set up for pod 1 is under way since")
		stop()
	})
}

// A pod that goes away half-way through its set-up does not wait for the end of that.
func TestPodGoesHalfWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: 24 * time.Hour, Times: 1})
		m, stop := n.run()
		first, next := podWith("1", "a"), podWith("2", "a")
		n.source.SetPod(first)
		time.Sleep(time.Second)
		n.source.RemovePod("1")
		n.source.SetPod(next)
		begin := time.Now()
		n.up(m, next)
		n.down(m, first)
		require.Less(t, time.Since(begin), time.Second)
		stop()
	})
}

// The next pod of a volume waits for the last one's tear-down, and says so.
func TestTearDownHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a")
		first, next := podWith("1", "a"), podWith("2", "a")
		m, stop := n.runUp(first)
		n.plugin.Inject(volumetest.Fault{Method: volumetest.TearDown, Delay: time.Hour, Times: 1})
		n.source.RemovePod("1")
		n.source.SetPod(next)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorContains(t, m.WaitForAttachAndMount(ctx, next), "tear down for pod 1 is under way")
		n.up(m, next)
		n.down(m, first)
		stop()
	})
}

// Two pods share a volume, one of them read-only; another of the same name comes with
// another UID.
func TestSharedAndRecreated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		writes, reads := podWith("1", "a"), podWith("2", "a")
		reads.Spec.Volumes[0].PersistentVolumeClaim.ReadOnly = true
		m, stop := n.runUp(writes, reads)
		require.False(t, m.GetMountedVolumesForPod("1")["v0"].ReadOnly)
		require.True(t, m.GetMountedVolumesForPod("2")["v0"].ReadOnly)
		require.Contains(t, n.table("/2/")[0].Flags.String(), "ro")

		again := podWith("3", "a")
		n.source.RemovePod("1")
		n.source.SetPod(again)
		n.up(m, again)
		n.down(m, writes)
		require.Empty(t, n.table("/1/"))
		stop()
	})
}

// Somebody unmounts a volume, and it is mounted again within a second.
func TestVanished(t *testing.T) {
	for name, fake := range map[string]volumetest.FakeConfig{"the pod's": own, "the one for all": {}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, fake)
				n.claim("a")
				pod := podWith("1", "a")
				m, stop := n.runUp(pod)
				before := n.mounts()
				for range 3 {
					time.Sleep(time.Minute)
					target := n.table("/plugins/")
					if len(target) == 0 {
						target = n.table("/1/")
					}
					require.NoError(t, n.kernel.Unmount(t.Context(), target[0].Mountpoint))
					time.Sleep(time.Second)
					require.Equal(t, before, settled(n))
					n.up(m, pod)
				}
				require.Contains(t, n.reasons(), manager.VolumeVanished)
				stop()
			})
		})
	}
}

// While nothing changes nothing is done.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.config.Resync, n.config.Refresh = -1, -1
		n.claim("a")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		time.Sleep(time.Second)
		n.kernel.ResetLog()
		time.Sleep(24 * time.Hour)
		require.Empty(t, n.kernel.Log())
		stop()
	})
}

// A plugin that panics has failed, wherever it does.
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		bad := &panicking{FakePlugin: n.plugin}
		plugins, err := volume.NewVolumePluginMgr(n.host, bad)
		require.NoError(t, err)
		n.config.Plugins = plugins
		m, stop := n.run()
		pod := podWith("1", "a")
		for _, in := range []string{"GetVolumeName", "NewMounter", "CanAttach"} {
			bad.in.Store(in)
			n.source.SetPod(pod.DeepCopy()) // of one that is the same nobody asks again
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorContains(t, m.WaitForAttachAndMount(ctx, pod), "panicked: "+in)
			cancel()
		}
		bad.in.Store("")
		n.up(m, pod)
		bad.in.Store("NewUnmounter")
		n.source.RemovePod("1")
		time.Sleep(time.Minute)
		require.Equal(t, "uncertain", m.State().Volumes[0].Pods[0].State)
		stop()
		bad.in.Store("ConstructVolumeSpec")
		m, stop = n.run()
		time.Sleep(time.Minute)
		require.ErrorContains(t, m.State().Leftovers[0].Err, "panicked")
		require.Equal(t, 1, n.mounts(), "it is not touched")
		stop()
		bad.in.Store("")
		m, stop = n.run()
		n.down(m, pod)
		stop()
	})
}

type panicking struct {
	*volumetest.FakePlugin
	in atomic.Value // string
}

func (p *panicking) Unwrap() volume.VolumePlugin { return nil }

func (p *panicking) panicIn(method string) {
	if p.in.Load() == method {
		panic(method)
	}
}

func (p *panicking) GetVolumeName(spec *volume.Spec) (string, error) {
	p.panicIn("GetVolumeName")
	return p.FakePlugin.GetVolumeName(spec)
}

func (p *panicking) CanAttach(spec *volume.Spec) (bool, error) {
	p.panicIn("CanAttach")
	return p.FakePlugin.CanAttach(spec)
}

func (p *panicking) NewMounter(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	p.panicIn("NewMounter")
	return p.FakePlugin.NewMounter(spec, pod)
}

func (p *panicking) NewUnmounter(name string, pod types.UID) (volume.Unmounter, error) {
	p.panicIn("NewUnmounter")
	return p.FakePlugin.NewUnmounter(name, pod)
}

func (p *panicking) ConstructVolumeSpec(ctx context.Context, name, path string) (*volume.Spec, error) {
	p.panicIn("ConstructVolumeSpec")
	return p.FakePlugin.ConstructVolumeSpec(ctx, name, path)
}

// Claims that cannot be used say why, and running pods keep what they have.
func TestClaims(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1.PersistentVolumeClaim, *v1.PersistentVolume)
		says   string
	}{
		"pending":   {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Status.Phase = v1.ClaimPending }, `it is "Pending", not bound`},
		"no volume": {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "" }, "no volume yet"},
		"being deleted": {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			c.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		}, "being deleted"},
		"another's": {func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.ClaimRef.UID = "x" }, `with the UID "x"`},
		"not bound": {func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.ClaimRef = nil }, "the volume is not bound"},
		"other mode": {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) {
			b := v1.PersistentVolumeBlock
			c.Spec.VolumeMode = &b
		}, "the volume's mode is Filesystem"},
		"missing volume":  {func(c *v1.PersistentVolumeClaim, _ *v1.PersistentVolume) { c.Spec.VolumeName = "none" }, "does not exist"},
		"no plugin of it": {func(_ *v1.PersistentVolumeClaim, pv *v1.PersistentVolume) { pv.Spec.CSI.Driver = "x" }, "no volume plugin matched"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, own)
				n.claim("good")
				n.claim("bad")
				ctx := t.Context()
				claim, err := n.source.PersistentVolumeClaim(ctx, "default", "bad")
				require.NoError(t, err)
				pv, err := n.source.PersistentVolume(ctx, "bad")
				require.NoError(t, err)
				pod := podWith("1", "good", "bad")
				m, stop := n.runUp(pod)
				defer stop()

				badClaim, badPV := claim.DeepCopy(), pv.DeepCopy()
				test.change(badClaim, badPV)
				n.source.SetClaim(badClaim)
				n.source.SetVolume(badPV)
				time.Sleep(time.Second)
				require.Equal(t, 2, n.mounts(), "a pod that runs keeps its volumes")
				waiting, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				err = m.WaitForAttachAndMount(waiting, pod)
				require.ErrorContains(t, err, test.says)
				var failed *manager.WaitError
				require.ErrorAs(t, err, &failed)
				require.Len(t, failed.Volumes, 1)
				require.Equal(t, "v1", failed.Volumes[0].Name)
				require.Contains(t, n.reasons(), manager.FailedMount)

				n.source.SetClaim(claim)
				n.source.SetVolume(pv)
				n.up(m, pod)
			})
		})
	}
}

// Pods that have ended, volumes that no container uses.
func TestWhatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		n.claim("b")
		pod := podWith("1", "a", "b")
		pod.Spec.Containers[0].VolumeMounts = pod.Spec.Containers[0].VolumeMounts[:1]
		m, stop := n.runUp(pod)
		require.Equal(t, 1, n.mounts(), "nobody uses the other")
		ended := pod.DeepCopy()
		ended.Status.Phase = v1.PodSucceeded
		n.source.SetPod(ended)
		n.down(m, pod)
		require.Zero(t, n.mounts())
		stop()
	})
}

func TestExpansion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		sized := func(size string) func(*v1.PersistentVolume) {
			return func(pv *v1.PersistentVolume) {
				pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse(size)}
			}
		}
		n.claim("a", sized("1Gi"))
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		time.Sleep(time.Second)
		before := n.plugin.Calls(volumetest.NodeExpand)
		n.claim("a", sized("2Gi"))
		time.Sleep(time.Second)
		require.Equal(t, before+1, n.plugin.Calls(volumetest.NodeExpand))
		require.Contains(t, n.reasons(), manager.VolumeResizeSuccessful)
		time.Sleep(time.Hour)
		require.Equal(t, before+1, n.plugin.Calls(volumetest.NodeExpand), "once")
		n.plugin.Inject(volumetest.Fault{Method: volumetest.NodeExpand, Err: errors.New("no"), Times: 1})
		n.claim("a", sized("3Gi"))
		time.Sleep(time.Minute)
		require.Contains(t, n.reasons(), manager.VolumeResizeFailed)
		require.Equal(t, before+3, n.plugin.Calls(volumetest.NodeExpand))
		stop()
	})
}

func TestBlockVolumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.claim("a", ofMode(v1.PersistentVolumeBlock))
		pod := withDevices(podWith("1", "a"))
		m, stop := n.runUp(pod)
		mounted := m.GetMountedVolumesForPod("1")["v0"]
		require.True(t, mounted.Block)
		target, err := os.Readlink(mounted.Path)
		require.NoError(t, err)
		require.Equal(t, filepath.Join(n.dir, "disk-a"), target)
		require.Contains(t, n.reasons(), manager.SuccessfulMapVolume)
		stop()

		m, stop = n.run()
		n.up(m, pod)
		n.source.RemovePod("1")
		require.NoError(t, m.WaitForAllPodsUnmount(t.Context()))
		synctest.Wait()
		require.Equal(t, 1, n.plugin.Calls(volumetest.TearDownDevice))
		require.NoFileExists(t, mounted.Path)
		require.Empty(t, m.State().Volumes)
		stop()
	})
}

func TestReportFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, volumetest.FakeConfig{})
		n.config.ReportFirst = true
		n.claim("a")
		m, stop := n.run()
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		time.Sleep(time.Hour)
		require.Zero(t, n.plugin.Calls(volumetest.Attach))
		m.MarkVolumesAsReportedInUse(m.GetVolumesInUse())
		n.up(m, pod)
		stop()
	})
}

// What a kubelet has left of volumes that no plugin here knows stays.
func TestForeignLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		csi := filepath.Join(n.host.Root(), "pods/1/volumes/kubernetes.io~csi/pvc-1")
		require.NoError(t, os.MkdirAll(csi+"/mount", 0o750))
		require.NoError(t, os.WriteFile(csi+"/vol_data.json", []byte(`{"driverName":"x"}`), 0o600))
		odd := filepath.Join(n.host.Root(), "pods/1/volumes/odd~name~here")
		require.NoError(t, os.MkdirAll(odd+"/v", 0o750))
		empty := filepath.Join(n.host.Root(), "pods/2/volumes/volumekit.io~fake/empty")
		require.NoError(t, os.MkdirAll(empty, 0o750))
		full := filepath.Join(n.host.Root(), "pods/3/volumes/volumekit.io~fake/full")
		require.NoError(t, os.MkdirAll(full, 0o750))
		require.NoError(t, os.WriteFile(full+"/precious", nil, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(n.host.Root(), "pods/file"), nil, 0o600))
		m, stop := n.run()
		time.Sleep(time.Hour + time.Second)
		require.Len(t, m.State().Leftovers, 2)
		late := filepath.Join(n.host.Root(), "pods/2/volumes/volumekit.io~fake/late")
		require.NoError(t, os.MkdirAll(late, 0o750))
		time.Sleep(time.Hour + time.Second)
		require.NoDirExists(t, late, "it is noticed in time")
		hung := filepath.Join(n.host.Root(), "pods/2/volumes/volumekit.io~fake/hung")
		require.NoError(t, os.MkdirAll(hung, 0o750))
		n.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Delay: time.Hour})
		time.Sleep(15 * time.Minute)
		stop() // while it looks
		require.DirExists(t, hung)
		require.FileExists(t, csi+"/vol_data.json")
		require.DirExists(t, odd+"/v")
		require.FileExists(t, full+"/precious")
		require.NoDirExists(t, empty, "an empty directory that is left goes")
		left := m.State().Leftovers
		require.Len(t, left, 3, "what did not answer is one, too")
		require.Equal(t, "kubernetes.io/csi", left[0].Plugin)
		require.Equal(t, csi, left[0].Path)
		require.ErrorIs(t, left[0].Err, volume.ErrNoPluginMatched)
	})
}

// A record that was torn, or is of another version, names its file; the plugin still
// knows what it told of.
func TestBrokenRecords(t *testing.T) {
	for name, text := range map[string]string{
		"empty":   "",
		"torn":    `{"version":1,"volume":"volumekit`,
		"other":   `{"version":99}`,
		"of none": `{"version":1,"volume":"x","plugin":"p","spec":{}}`,
		"rubbish": "\x00\xff",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, volumetest.FakeConfig{})
				n.claim("a")
				pod := podWith("1", "a")
				_, stop := n.runUp(pod)
				stop()
				files, err := filepath.Glob(n.host.Root() + "/plugins/volumekit.io~manager/volumes/*.json")
				require.NoError(t, err)
				require.Len(t, files, 1)
				require.NoError(t, os.WriteFile(files[0], []byte(text), 0o600))

				n.source.RemovePod("1")
				m, stop := n.run()
				time.Sleep(time.Second)
				require.Zero(t, n.mounts(), "the plugin knows what it is")
				require.True(t, slices.ContainsFunc(m.State().Leftovers, func(l manager.Leftover) bool {
					return l.Err != nil && strings.Contains(l.Err.Error(), files[0])
				}), m.State().Leftovers)
				stop()
			})
		})
	}
}

// A manager runs once at a time, and again.
func TestRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		m, stop := n.run()
		synctest.Wait()
		require.ErrorIs(t, m.Run(t.Context()), manager.ErrRunning)
		stop()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, m.Run(ctx), context.DeadlineExceeded)
	})
}

// A run that ends while it looks around does so at once.
func TestEndsWhileRestoring(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a")
		pod := podWith("1", "a")
		_, stop := n.runUp(pod)
		stop()
		n.plugin.Inject(volumetest.Fault{Method: volumetest.ConstructVolumeSpec, Delay: time.Hour, Times: 1})
		_, stop = n.run()
		time.Sleep(time.Second)
		begin := time.Now()
		stop()
		require.Less(t, time.Since(begin), time.Second)
		require.Equal(t, 1, n.mounts())
		m, stop := n.run()
		n.up(m, pod)
		stop()
	})
}

// A source that does not answer any more keeps nothing else waiting.
func TestSourceHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		source := &hanging{MemorySource: n.source}
		n.config.Source = source
		n.claim("a")
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		source.hangs.Store(true)
		n.source.SetPod(podWith("2", "a"))
		time.Sleep(time.Second)
		require.NoError(t, n.kernel.Unmount(t.Context(), n.table("/1/")[0].Mountpoint))
		time.Sleep(time.Second)
		require.Len(t, n.table("/1/"), 1, "it is mounted again")
		source.hangs.Store(false)
		time.Sleep(time.Hour)
		n.up(m, podWith("2", "a"))
		stop()
	})
}

type hanging struct {
	*manager.MemorySource
	hangs atomic.Bool
}

func (s *hanging) Pods(ctx context.Context) ([]*v1.Pod, error) {
	if s.hangs.Load() {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return s.MemorySource.Pods(ctx)
}

// What is asked to be set up again is, if it follows something.
func TestMarkRemountRequired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.config.Refresh = -1
		n.claim("a")
		following := &follows{FakePlugin: n.plugin}
		plugins, err := volume.NewVolumePluginMgr(n.host, following)
		require.NoError(t, err)
		n.config.Plugins = plugins
		pod := podWith("1", "a")
		m, stop := n.runUp(pod)
		time.Sleep(time.Hour)
		before := n.plugin.Calls(volumetest.SetUp)
		m.MarkRemountRequired("1")
		m.MarkRemountRequired("2")
		time.Sleep(time.Second)
		require.Equal(t, before+1, n.plugin.Calls(volumetest.SetUp))
		stop()

		n.config.Refresh = time.Minute
		m, stop = n.run()
		n.up(m, pod)
		before = n.plugin.Calls(volumetest.SetUp)
		time.Sleep(10*time.Minute + time.Second)
		require.Equal(t, before+10, n.plugin.Calls(volumetest.SetUp))
		require.Equal(t, 1, n.mounts())
		stop()
	})
}

type follows struct{ *volumetest.FakePlugin }

func (f *follows) RequiresRemount(*volume.Spec) bool { return true }
func (f *follows) Unwrap() volume.VolumePlugin       { return nil }

// TestVolumeOfAnotherNode: a volume is not set up where it does not belong.
func TestVolumeOfAnotherNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, own)
		n.claim("a", func(pv *v1.PersistentVolume) {
			pv.Spec.NodeAffinity = &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchFields: []v1.NodeSelectorRequirement{{Key: "metadata.name", Operator: v1.NodeSelectorOpIn, Values: []string{"another-node"}}},
			}}}}
		})
		m, stop := n.run()
		defer stop()
		pod := podWith("1", "a")
		n.source.SetPod(pod)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorContains(t, m.WaitForAttachAndMount(ctx, pod), "not for this node")
		mounts, err := n.kernel.List(t.Context())
		require.NoError(t, err)
		require.Len(t, mounts, 1, "the root")
	})
}
