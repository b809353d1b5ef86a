package node_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A managedNode is a node with a manager and an attacher, and a controller that attaches to it.
type managedNode struct {
	*attachWorld
	random  *rand.Rand
	events  func(manager.Event) // nil: dropped
	dir     string
	host    volume.VolumeHost
	kernel  *mounttest.Fake
	plugin  *volumetest.FakePlugin
	source  *manager.MemorySource
	manager *manager.Manager
	stops   []func()
	period  time.Duration // the controller's longest pause
	ends    chan struct{} // of the controller
}

const claims = 3

func newManagedNode(w *attachWorld, seed uint64) *managedNode {
	w.Helper()
	n := &managedNode{attachWorld: w, random: rand.New(rand.NewPCG(seed, 1)), source: manager.NewMemorySource(), period: time.Second, ends: make(chan struct{})}
	var err error
	n.dir, err = filepath.EvalSymlinks(w.TempDir())
	require.NoError(w, err)
	require.NoError(w, os.Mkdir(n.dir+"/root", 0o755))
	n.kernel = mounttest.NewFake(mount.Config{})
	n.plugin = volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: n.kernel})
	for i := range claims {
		name := fmt.Sprint("c", i)
		require.NoError(w, os.Mkdir(n.disk(i), 0o755))
		c := claim(name, name)
		pv := n.plugin.NewSpec(name, n.disk(i)).PersistentVolume
		pv.Spec.ClaimRef = volumeOf(c).Spec.ClaimRef
		n.source.SetVolume(pv)
		n.source.SetClaim(c)
	}
	return n
}

func (n *managedNode) disk(i int) string { return filepath.Join(n.dir, fmt.Sprint("disk-", i)) }

func (n *managedNode) unique(i int) v1.UniqueVolumeName {
	return v1.UniqueVolumeName(n.plugin.GetPluginName() + "/" + n.disk(i))
}

// boot starts the manager and the attacher, as after a start of the program.
func (n *managedNode) boot() {
	n.Helper()
	var err error
	run := n.newAttacher()
	n.host, err = volume.NewHost(n.Context(), n.dir+"/root", volume.WithNodeName("node-1"))
	require.NoError(n, err)
	plugins, err := volume.NewVolumePluginMgr(n.Context(), n.host, n.plugin)
	require.NoError(n, err)
	n.manager, err = manager.New(manager.Config{
		Plugins: plugins, Mounter: n.kernel, Pods: n.source, Claims: n.source, Attacher: n.Attacher, ReportFirst: true, Events: n.events,
	})
	require.NoError(n, err)
	ctx, cancel := context.WithCancel(n.Context())
	end := run(n.manager)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.manager.Run(ctx)
	}()
	n.stops = append(n.stops, func() {
		cancel()
		<-ended
		end()
	})
}

// shutDown ends the program.
func (n *managedNode) shutDown() {
	for _, stop := range n.stops {
		stop()
	}
	n.stops = nil
}

// podOf returns the pod of a claim.
func podOf(i int) *v1.Pod {
	p := pod(fmt.Sprint("pod-", i), byClaim(fmt.Sprint("c", i)))
	return p
}

// wanted reports whether the pod of a claim exists.
func (n *managedNode) wanted(i int) bool {
	pods, err := n.source.Pods(n.Context())
	require.NoError(n, err)
	return slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.UID == podOf(i).UID })
}

func (n *managedNode) isAttached(i int) bool {
	return slices.Contains(n.plugin.AttachedTo(n.disk(i)), types.NodeName("node-1"))
}

// isMounted reports whether the device or the directory of a volume is mounted.
func (n *managedNode) isMounted(i int) bool {
	table, err := n.kernel.List(n.Context())
	require.NoError(n, err)
	return slices.ContainsFunc(table, func(m mount.Info) bool {
		path, ok := strings.CutPrefix(m.Mountpoint, n.dir+"/root/")
		return ok && strings.Contains(path+"/", fmt.Sprint("/c", i, "/"))
	})
}

// pause lets up to a time pass.
func (n *managedNode) pause(most time.Duration) { time.Sleep(below(n.random, most)) }

// below returns a random duration below a limit.
func below(random *rand.Rand, limit time.Duration) time.Duration {
	return time.Duration(random.Int64N(int64(limit)))
}

// control attaches and detaches as the attach/detach controller does, until ends is closed: it takes a
// volume out of volumesAttached, then reads volumesInUse, and then detaches.
func (n *managedNode) control(random *rand.Rand) {
	for {
		select {
		case <-n.ends:
			return
		case <-time.After(below(random, n.period)):
		}
		for i := range claims {
			switch {
			case !n.wanted(i) && n.isAttached(i) && !n.isInUse(i):
				n.setAttached(i, false)
				time.Sleep(below(random, 300*time.Millisecond))
				if n.isInUse(i) {
					n.setAttached(i, true)
					continue
				}
				if n.isMounted(i) {
					n.Errorf("volume %d is detached while it is mounted", i)
				}
				detacher, err := n.plugin.NewDetacher()
				require.NoError(n, err)
				require.NoError(n, detacher.Detach(n.Context(), volume.DetachRequest{VolumeName: n.disk(i), Node: "node-1"}))
			case n.wanted(i) && !n.isAttached(i):
				attacher, err := n.plugin.NewAttacher()
				require.NoError(n, err)
				spec := n.plugin.NewSpec(fmt.Sprint("c", i), n.disk(i))
				_, err = attacher.Attach(n.Context(), spec, "node-1")
				require.NoError(n, err)
				time.Sleep(below(random, 300*time.Millisecond))
				n.setAttached(i, true)
			case n.wanted(i):
				n.setAttached(i, true)
			}
		}
	}
}

// isInUse reports whether the API server has the volume in volumesInUse.
func (n *managedNode) isInUse(i int) bool {
	node, err := n.nodes.Get(n.Context(), "node-1", metav1.GetOptions{})
	require.NoError(n, err)
	return slices.Contains(node.Status.VolumesInUse, n.unique(i))
}

// setAttached adds a volume to volumesAttached or removes it.
func (n *managedNode) setAttached(i int, attached bool) {
	for {
		node, err := n.nodes.Get(n.Context(), "node-1", metav1.GetOptions{})
		require.NoError(n, err)
		has := func(v v1.AttachedVolume) bool { return v.Name == n.unique(i) }
		if slices.ContainsFunc(node.Status.VolumesAttached, has) == attached {
			return
		}
		node.Status.VolumesAttached = slices.DeleteFunc(node.Status.VolumesAttached, has)
		if attached {
			node.Status.VolumesAttached = append(node.Status.VolumesAttached, v1.AttachedVolume{Name: n.unique(i), DevicePath: "/dev/x"})
		}
		if _, err = n.nodes.UpdateStatus(n.Context(), node, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			require.NoError(n, err)
			return
		}
	}
}

// TestManagerWithController: no history of pods, restarts and faults makes the controller detach a
// volume that is mounted; after the faults, the volumes of pods are up, and no other one is attached.
// VOLUMEKIT_LONG=1 runs 300 histories.
func TestManagerWithController(t *testing.T) {
	for seed := range uint64(testbed.UpTo(20, 300)) {
		ok := t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inAttachWorld(t, func(w *attachWorld) { newManagedNode(w, seed).history() })
		})
		require.True(t, ok)
	}
}

// history makes random changes and checks the result.
func (n *managedNode) history() {
	n.boot()
	random := rand.New(rand.NewPCG(n.random.Uint64(), 2))
	controlled := make(chan struct{})
	go func() {
		defer close(controlled)
		n.control(random)
	}()
	var repairs []func()
	for range 60 {
		switch n.random.IntN(12) {
		case 0:
			repairs = append(repairs, n.server.StartOutage(agent))
		case 1:
			repairs = append(repairs, n.server.HoldEvents(agent))
		case 2:
			n.server.CutWatches(agent)
		case 3:
			repairs = append(repairs, n.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Failure: apitest.InternalError, AfterEffect: n.random.IntN(2) == 0}))
		case 4:
			n.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Latency: below(n.random, 20*time.Second), Times: 1})
		case 5:
			if n.random.IntN(4) == 0 {
				n.shutDown()
				n.boot()
			}
		case 6, 7:
			for _, repair := range repairs {
				repair()
			}
			repairs = nil
		default:
			if i := n.random.IntN(claims); n.wanted(i) {
				n.source.RemovePod(podOf(i).UID)
			} else {
				n.source.SetPod(podOf(i))
			}
		}
		n.pause([]time.Duration{10 * time.Millisecond, time.Second, 10 * time.Second, time.Minute}[n.random.IntN(4)])
	}
	for _, repair := range repairs {
		repair()
	}
	time.Sleep(20 * time.Minute)
	for i := range claims {
		want := n.wanted(i)
		require.Equal(n, []bool{want, want, want}, []bool{n.isAttached(i), n.isMounted(i), n.isInUse(i)}, "volume %d", i)
	}
	close(n.ends)
	<-controlled
	n.shutDown()
	synctest.Wait()
}

// TestOutageWithManager: through an outage of any length the volumes of a pod stay up; after it the
// removal of the pod is reported, and the controller detaches.
func TestOutageWithManager(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		n := newManagedNode(w, 1)
		n.period = 10 * time.Second
		n.boot()
		controlled := make(chan struct{})
		go func() {
			defer close(controlled)
			n.control(n.random)
		}()
		n.source.SetPod(podOf(0))
		ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
		defer cancel()
		require.NoError(t, n.manager.WaitForAttachAndMount(ctx, podOf(0)))
		require.True(t, n.isMounted(0))
		end := n.server.StartOutage(agent)
		time.Sleep(24 * time.Hour)
		require.Len(t, n.manager.GetMountedVolumesForPod(podOf(0).UID), 1)
		n.source.RemovePod(podOf(0).UID)
		require.NoError(t, n.manager.WaitForUnmount(w.Context(), podOf(0)))
		time.Sleep(time.Hour)
		require.True(t, n.isAttached(0), "the controller reads that the volume is in use")
		end()
		time.Sleep(2 * time.Minute)
		require.False(t, n.isInUse(0))
		require.False(t, n.isAttached(0))
		close(n.ends)
		<-controlled
		n.shutDown()
	})
}
