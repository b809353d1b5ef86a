package attach_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/internal/metricstest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var (
	single  = diskSpec{name: "single"}
	shared  = diskSpec{name: "shared", isShared: true}
	plugged = diskSpec{name: "plugged", isPlugin: true}
)

// A world is a cluster with two nodes in a bubble of testing/synctest.
type world struct {
	*simtest.Bed
	driver  *csiDriver
	config  attach.Config
	metrics *metricstest.Recorder

	mu     sync.Mutex
	events []string
	calls  []string // of the plugin
	// failure is the error of a call of the plugin.
	failure func(call string) error
	// canAttach is the error of CanAttach.
	canAttach error
	latest    *attach.Controller
}

// inWorld runs a test in a bubble. The nodes have existed for an hour.
func inWorld(t *testing.T, test func(*world)) {
	t.Helper()
	simtest.InBed(t, identity, func(bed *simtest.Bed) {
		w := &world{Bed: bed, metrics: metricstest.New(t)}
		w.driver = &csiDriver{
			cluster: w.Cluster,
			attach:  func(*storagev1.VolumeAttachment) error { return nil },
			detach:  func(*storagev1.VolumeAttachment) error { return nil },
		}
		w.config = attach.Config{Metrics: w.metrics, Events: func(e api.Event) {
			object, err := nameOf(e)
			require.NoError(t, err)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.events = append(w.events, object+" "+e.Reason+": "+e.Message)
		}}
		for _, name := range []string{"a", "b"} {
			_, err := w.Cluster.Nodes().Create(w.Context(), newNode(name, v1.ConditionTrue), metav1.CreateOptions{})
			require.NoError(t, err)
		}
		time.Sleep(time.Hour)
		test(w)
	})
}

func nameOf(e api.Event) (string, error) {
	object, ok := e.Object.(metav1.Object)
	if !ok {
		return "", fmt.Errorf("event of %T", e.Object)
	}
	return object.GetName(), nil
}

// start starts a controller. end crashes its process.
func (w *world) start() (end func()) {
	w.Helper()
	return w.Start(100*time.Millisecond, func(ctx context.Context, cluster *apitest.Cluster) (err error) {
		config := w.config
		config.Cluster = cluster
		if config.Plugins, err = w.plugin().manager(ctx); err != nil {
			return err
		}
		controller, err := attach.New(config)
		if err != nil {
			return err
		}
		w.mu.Lock()
		w.latest = controller
		w.mu.Unlock()
		return controller.Run(ctx)
	})
}

// plugin returns a plugin that records its calls.
func (w *world) plugin() *diskPlugin {
	call := func(text string) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.calls = append(w.calls, text)
		if w.failure == nil {
			return nil
		}
		return w.failure(text)
	}
	return &diskPlugin{
		canAttach: func() error {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.canAttach
		},
		attach: func(_ context.Context, disk string, node types.NodeName) (string, error) {
			return "/dev/" + disk, call("attach " + disk + " to " + string(node))
		},
		detach: func(_ context.Context, disk string, node types.NodeName) error {
			return call("detach " + disk + " from " + string(node))
		},
	}
}

// settle lets the driver answer until nothing happens.
func (w *world) settle() {
	w.Helper()
	for range 4 {
		w.Wait(10 * time.Millisecond)
		require.NoError(w, w.driver.answer(w.Context()))
	}
	w.Wait(10 * time.Millisecond)
}

// took returns the calls of the controller since the last time, without watches, lists, and the hashes in names.
func (w *world) took() (all []string) {
	for _, text := range w.Took() {
		if strings.Contains(text, " volumeattachments ") {
			text, _, _ = strings.Cut(text, " csi-")
		}
		all = append(all, text)
	}
	return all
}

// announced returns the events since the last time, sorted.
func (w *world) announced() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	events := w.events
	w.events = nil
	slices.Sort(events)
	return events
}

// forcedDetaches returns the counters of forced detaches since the last time, by reason.
func (w *world) forcedDetaches() map[string]int {
	counts := map[string]int{}
	for series, n := range w.metrics.Take() {
		if reason, ok := strings.CutPrefix(series, attach.ForcedDetaches+" reason="); ok {
			counts[reason] = n
		}
	}
	return counts
}

// asked returns the calls of the plugin since the last time.
func (w *world) asked() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := w.calls
	w.calls = nil
	return calls
}

// fail sets the error of each later call of the plugin.
func (w *world) fail(failure func(call string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = failure
}

func (w *world) addDisks(disks ...diskSpec) {
	w.Helper()
	for _, d := range disks {
		require.NoError(w, createPair(w.Context(), w.Cluster, d))
	}
}

func (w *world) addPod(name, node, claim string) {
	w.Helper()
	_, err := w.Cluster.Pods(namespace).Create(w.Context(), newPod(name, node, claim), metav1.CreateOptions{})
	require.NoError(w, err)
}

func (w *world) deletePod(name string) {
	w.Helper()
	none := int64(0)
	require.NoError(w, w.Cluster.Pods(namespace).Delete(w.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: &none}))
}

func (w *world) changeNode(name string, change func(*v1.Node)) {
	w.Helper()
	synctest.Wait()
	node, err := w.Cluster.Nodes().Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	before := node.DeepCopy()
	change(node)
	status := node.DeepCopy()
	if !equality.Semantic.DeepEqual(before.Status, node.Status) {
		_, err = w.Cluster.Nodes().UpdateStatus(w.Context(), node, metav1.UpdateOptions{})
		require.NoError(w, err)
	}
	if !equality.Semantic.DeepEqual(before.ObjectMeta.Annotations, status.Annotations) || !equality.Semantic.DeepEqual(before.Spec, status.Spec) {
		synctest.Wait()
		node, err = w.Cluster.Nodes().Get(w.Context(), name, metav1.GetOptions{})
		require.NoError(w, err)
		node.Annotations, node.Spec = status.Annotations, status.Spec
		_, err = w.Cluster.Nodes().Update(w.Context(), node, metav1.UpdateOptions{})
		require.NoError(w, err)
	}
	synctest.Wait()
}

// attachSingle starts a controller that attaches the disk single to the node a, for the pod one.
func (w *world) attachSingle() (end func()) {
	w.Helper()
	return w.attachDisk(single)
}

// attachDisk starts a controller that attaches a disk to the node a, for the pod one.
func (w *world) attachDisk(d diskSpec) (end func()) {
	w.Helper()
	w.addDisks(d)
	end = w.start()
	w.addPod("one", "a", d.name)
	w.settle()
	return end
}

// holdByOther makes another run the holder of a disk for a node: its last attach was at a time, and its calls may take
// effect until another one.
func (w *world) holdByOther(disk, node string, at, until time.Time) {
	w.Helper()
	pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), disk, metav1.GetOptions{})
	require.NoError(w, err)
	value, err := json.Marshal(map[string]any{"nodes": []string{node}, "run": "other", "at": at, "until": until})
	require.NoError(w, err)
	metav1.SetMetaDataAnnotation(&pv.ObjectMeta, attach.HolderAnnotation, string(value))
	_, err = w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
}

// use sets the volumes in use of a node.
func (w *world) use(node string, disks ...diskSpec) {
	w.Helper()
	w.changeNode(node, func(n *v1.Node) {
		n.Status.VolumesInUse = nil
		for _, d := range disks {
			n.Status.VolumesInUse = append(n.Status.VolumesInUse, d.id())
		}
	})
}

// state returns the VolumeAttachments and the volumes that nodes report as attached.
func (w *world) state() string {
	w.Helper()
	var parts []string
	attachments, err := w.Cluster.VolumeAttachments().List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	for _, va := range attachments.Items {
		state := "attaching"
		switch {
		case va.DeletionTimestamp != nil:
			state = "detaching"
		case va.Status.Attached:
			state = "attached"
		}
		parts = append(parts, fmt.Sprintf("%s %s to %s", *va.Spec.Source.PersistentVolumeName, state, va.Spec.NodeName))
	}
	nodes, err := w.Cluster.Nodes().List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	for _, node := range nodes.Items {
		for _, entry := range node.Status.VolumesAttached {
			text := string(entry.Name) + " on " + node.Name
			if entry.DevicePath != "" {
				text += " at " + entry.DevicePath
			}
			parts = append(parts, text[strings.LastIndexAny(string(entry.Name), "/^")+1:])
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// TestMove: a pod moves to another node, with the fewest calls in the order that keeps its volume safe.
func TestMove(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachSingle()
		require.Equal(t, "single attached to a, single on a", w.state())
		require.Equal(t, []string{"patch persistentvolumes single", "create volumeattachments", "patch nodes/status a"}, w.took())
		require.Equal(t, []string{`one SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "single"`}, w.announced())
		w.use("a", single)
		w.deletePod("one")
		w.addPod("two", "b", "single")
		w.settle()
		require.Equal(t, "single attached to a", w.state(), "in use")
		require.Equal(t, []string{`two FailedAttachVolume: Multi-Attach error for volume "single": the volume is attached to node "a", which has to detach it first`}, w.announced())
		require.Equal(t, []string{"patch nodes/status a"}, w.took())
		w.use("a")
		w.settle()
		require.Equal(t, "single attached to b, single on b", w.state())
		w.Wait(time.Hour)
		require.Equal(t, []string{
			"delete volumeattachments", "patch persistentvolumes single", "create volumeattachments", "patch nodes/status b",
		}, w.took())
		require.Equal(t, []string{`two SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "single"`}, w.announced())
		w.deletePod("two")
		w.settle()
		require.Empty(t, w.state())
		require.Empty(t, w.forcedDetaches())
	})
}

// TestMultiAttach: an exclusive volume has one node, a shared one several.
func TestMultiAttach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single, shared)
		w.start()
		w.addPod("one", "a", "single")
		w.addPod("two", "a", "shared")
		w.settle()
		w.announced()
		w.addPod("three", "b", "single")
		w.addPod("four", "b", "shared")
		w.settle()
		require.Equal(t, "shared attached to a, shared attached to b, shared on a, shared on b, single attached to a, single on a", w.state())
		require.Equal(t, []string{
			`four SuccessfulAttachVolume: AttachVolume.Attach succeeded for volume "shared"`,
			`three FailedAttachVolume: Multi-Attach error for volume "single": the volume allows one node, and is used on node "a" by pod(s) one`,
		}, w.announced())
	})
}

// TestBatches: the changes of a node that come together are few writes.
func TestBatches(t *testing.T) {
	inWorld(t, func(w *world) {
		for i := range 20 {
			d := diskSpec{name: fmt.Sprint("disk-", i)}
			w.addDisks(d)
			w.addPod("pod-"+d.name, "a", d.name)
		}
		w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Resource: "nodes"}, Share: 1, Latency: time.Second})
		w.start()
		w.settle()
		w.Wait(time.Minute)
		writes := slices.DeleteFunc(w.took(), func(call string) bool { return !strings.Contains(call, "nodes/status") })
		require.Less(t, len(writes), 5, writes)
		require.Equal(t, 20, strings.Count(w.state(), " on a"))
	})
}

// TestFinishedPods: a finished pod gives up its volume, unless the node keeps it.
func TestFinishedPods(t *testing.T) {
	for _, keeps := range []bool{false, true} {
		inWorld(t, func(w *world) {
			w.addDisks(single)
			if keeps {
				w.changeNode("a", func(n *v1.Node) { n.Annotations[attach.KeepTerminatedAnnotation] = "true" })
			}
			w.start()
			w.addPod("one", "a", "single")
			w.settle()
			pod, err := w.Cluster.Pods(namespace).Get(w.Context(), "one", metav1.GetOptions{})
			require.NoError(t, err)
			pod.Status.Phase = v1.PodSucceeded
			_, err = w.Cluster.Pods(namespace).UpdateStatus(w.Context(), pod, metav1.UpdateOptions{})
			require.NoError(t, err)
			w.settle()
			if keeps {
				require.Equal(t, "single attached to a, single on a", w.state())
				w.changeNode("a", func(n *v1.Node) { delete(n.Annotations, attach.KeepTerminatedAnnotation) })
				w.settle()
			}
			require.Empty(t, w.state())
		})
	}
}

// TestUnmanagedNode: volumes of a node without the annotation are left alone until it has one.
func TestUnmanagedNode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.changeNode("a", func(n *v1.Node) { n.Annotations = nil })
		w.attachSingle()
		require.Empty(t, w.state())
		w.changeNode("a", func(n *v1.Node) { n.Annotations = map[string]string{managed: "true"} })
		w.settle()
		require.Equal(t, "single attached to a, single on a", w.state())
		w.changeNode("a", func(n *v1.Node) { n.Annotations = nil })
		w.Wait(time.Millisecond)
		w.deletePod("one")
		w.settle()
		require.Equal(t, "single attached to a, single on a", w.state())
	})
}

// TestAttachNotRequired: a driver without attaches has none, and its CSIDriver object may come late.
func TestAttachNotRequired(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single)
		w.start()
		no := false
		object, err := w.Cluster.CSIDrivers().Create(w.Context(), &storagev1.CSIDriver{
			ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &no},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		w.Wait(time.Millisecond)
		w.addPod("one", "a", "single")
		w.settle()
		require.Empty(t, w.state())
		require.Empty(t, w.took())
		require.NoError(t, w.Cluster.CSIDrivers().Delete(w.Context(), object.Name, metav1.DeleteOptions{}))
		w.settle()
		require.Equal(t, "single attached to a, single on a", w.state())
	})
}

// TestForcedDetach: a volume in use leaves a node that counts as dead.
func TestForcedDetach(t *testing.T) {
	for unhealthyAfter, after := range map[time.Duration]time.Duration{0: 6 * time.Minute, 20 * time.Minute: 20 * time.Minute} {
		inWorld(t, func(w *world) {
			w.config.UnhealthyAfter = unhealthyAfter
			w.attachSingle()
			w.use("a", single)
			w.deletePod("one")
			w.Wait(time.Hour)
			require.Equal(t, "single attached to a", w.state(), "the node is healthy")
			w.changeNode("a", func(n *v1.Node) { n.Status.Conditions = []v1.NodeCondition{readyCondition(v1.ConditionUnknown)} })
			w.Wait(after - time.Second)
			require.Equal(t, "single attached to a", w.state())
			w.Wait(time.Second)
			w.settle()
			require.Empty(t, w.state())
			require.Equal(t, map[string]int{"timeout": 1}, w.forcedDetaches())
		})
	}
}

// TestReadyMeanwhile: the condition Ready, which the cache has missed, begins the time anew.
func TestReadyMeanwhile(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachSingle()
		w.use("a", single)
		w.deletePod("one")
		unknown := func(n *v1.Node) { n.Status.Conditions = []v1.NodeCondition{readyCondition(v1.ConditionUnknown)} }
		w.changeNode("a", unknown)
		w.Wait(time.Minute)
		w.Server.HoldEvents(identity)
		w.Wait(time.Minute)
		w.changeNode("a", unknown) // with another time of the last transition
		w.Wait(5 * time.Minute)
		require.Equal(t, "single attached to a", w.state())
		w.Wait(6 * time.Minute)
		require.Equal(t, "single detaching to a", w.state())
	})
}

// TestOutOfService: the taint lets a node count as dead at once.
func TestOutOfService(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachSingle()
		w.use("a", single)
		w.deletePod("one")
		w.changeNode("a", func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}
		})
		w.settle()
		require.Empty(t, w.state())
		require.Equal(t, map[string]int{"out-of-service": 1}, w.forcedDetaches())
	})
}

// TestGoneNode: the attachments of a gone node are deleted after the same time.
func TestGoneNode(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single, plugged)
		w.start()
		w.addPod("one", "a", "single")
		w.addPod("two", "a", "plugged")
		w.settle()
		w.asked()
		require.NoError(t, w.Cluster.Nodes().Delete(w.Context(), "a", metav1.DeleteOptions{}))
		w.Wait(time.Hour)
		require.Equal(t, "single attached to a", w.state(), "its pods exist")
		w.deletePod("one")
		w.deletePod("two")
		w.settle()
		require.Empty(t, w.state())
		require.Equal(t, []string{"detach plugged from a"}, w.asked())
		require.Equal(t, map[string]int{"timeout": 2}, w.forcedDetaches())
	})
}

// TestNewNodeObject: the lists of a new Node object of a living node do not count at first.
func TestNewNodeObject(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachSingle()
		w.use("a", single)
		require.NoError(t, w.Cluster.Nodes().Delete(w.Context(), "a", metav1.DeleteOptions{}))
		_, err := w.Cluster.Nodes().Create(w.Context(), newNode("a", v1.ConditionTrue), metav1.CreateOptions{})
		require.NoError(t, err)
		w.deletePod("one")
		w.Wait(50 * time.Second)
		require.Equal(t, "single attached to a", w.state())
		w.use("a", single)
		w.Wait(time.Hour)
		require.Equal(t, "single attached to a", w.state())
		w.use("a")
		w.settle()
		require.Empty(t, w.state())
	})
}

// TestLiveLists: a volume that the cache shows in no list of the node is not detached before the API server
// shows the same.
func TestLiveLists(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.attachSingle()
		end()
		w.deletePod("one")
		w.changeNode("a", func(n *v1.Node) { n.Status.VolumesAttached = nil })
		w.Wait(5 * time.Minute)
		w.took()
		w.start()
		require.Contains(t, w.took(), "get nodes a")
		w.settle()
		require.Empty(t, w.state())
	})
}

// TestLimit: a volume waits for room.
func TestLimit(t *testing.T) {
	for name, limit := range map[string]func(*world){
		"CSINode": func(w *world) { w.limitA(1) },
		"node": func(w *world) {
			w.changeNode("a", func(n *v1.Node) {
				n.Status.Allocatable = v1.ResourceList{"attachable-volumes-csi-" + driver: resource.MustParse("1")}
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				limit(w)
				w.addDisks(single, shared)
				w.start()
				w.addPod("one", "a", "single")
				w.settle()
				w.announced()
				w.addPod("two", "a", "shared")
				w.settle()
				require.Equal(t, "single attached to a, single on a", w.state())
				require.Equal(t, []string{`two FailedAttachVolume: AttachVolume.Attach failed for volume "shared": the node has no room for another volume of the driver`}, w.announced())
				w.deletePod("one")
				w.settle()
				w.settle()
				require.Equal(t, "shared attached to a, shared on a", w.state())
			})
		})
	}
}

// limitA lets the node a have at most a number of volumes of the driver.
func (w *world) limitA(most int32) {
	w.Helper()
	_, err := w.Cluster.CSINodes().Create(w.Context(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "a"},
		Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{
			{Name: driver, NodeID: "a", Allocatable: &storagev1.VolumeNodeResources{Count: &most}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(w, err)
}

// TestDriverErrors: the errors of a driver are events.
func TestDriverErrors(t *testing.T) {
	inWorld(t, func(w *world) {
		broken := true
		fails := func(*storagev1.VolumeAttachment) error {
			if broken {
				return errors.New("rpc error\nno disk")
			}
			return nil
		}
		w.driver.attach, w.driver.detach = fails, fails
		w.attachSingle()
		require.Equal(t, []string{`one FailedAttachVolume: AttachVolume.Attach failed for volume "single": rpc error no disk`}, w.announced())
		broken = false
		w.settle()
		require.Equal(t, "single attached to a, single on a", w.state())
		broken = true
		w.announced()
		w.deletePod("one")
		w.settle()
		require.Equal(t, []string{`single FailedDetachVolume: DetachVolume.Detach failed for volume "single" on node "a": rpc error no disk`}, w.announced())
		require.Equal(t, "single detaching to a", w.state())
		broken = false
		w.settle()
		require.Empty(t, w.state())
	})
}

// TestSilentDriver: pods receive an event once a driver has not answered for two minutes, without a call of the
// API server until then.
func TestSilentDriver(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single)
		w.start()
		w.addPod("one", "a", "single")
		w.Wait(119 * time.Second)
		require.Empty(t, w.announced())
		w.took()
		w.Wait(2 * time.Minute)
		const silent = `one FailedAttachVolume: AttachVolume.Attach failed for volume "single": driver "driver.example.com" has not answered for 2m0s`
		require.Equal(t, []string{silent}, w.announced())
		require.Empty(t, w.took())
		w.settle()
		require.Equal(t, "single attached to a, single on a", w.state())
		w.announced()

		w.deletePod("one")
		w.Wait(time.Second)
		w.addPod("two", "a", "single")
		w.Wait(time.Minute)
		require.Equal(t, "single detaching to a", w.state())
		require.Empty(t, w.announced())
		w.Wait(2 * time.Minute)
		require.Equal(t, []string{strings.Replace(silent, "one", "two", 1)}, w.announced())
	})
}

// TestFailingDetach: a pod that waits for a detach on its own node sees why.
func TestFailingDetach(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachSingle()
		w.deletePod("one")
		w.Wait(time.Second)
		w.announced()
		w.driver.detach = func(*storagev1.VolumeAttachment) error { return errors.New("no answer of the storage") }
		w.addPod("two", "a", "single")
		w.settle()
		require.Contains(t, w.announced(), `two FailedAttachVolume: AttachVolume.Attach failed for volume "single": the driver has to detach it first, which fails: no answer of the storage`)
	})
}

// TestForeignAttachment: a pod whose volume another program attaches by its own VolumeAttachment sees this.
func TestForeignAttachment(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single)
		w.start()
		volume := "single"
		_, err := w.Cluster.VolumeAttachments().Create(t.Context(), &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "other"},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		w.settle()
		w.addPod("one", "a", "single")
		w.settle()
		require.Equal(t, []string{`one FailedAttachVolume: AttachVolume.Attach failed for volume "single": a VolumeAttachment of another program names the volume and the node`}, w.announced())
	})
}

// TestRefusedAttach: users see why the API server refuses a VolumeAttachment. Each text is sent once.
func TestRefusedAttach(t *testing.T) {
	resource := schema.GroupResource{Group: "storage.k8s.io", Resource: "volumeattachments"}
	for want, failure := range map[string]error{
		"is forbidden: exceeded quota":              apierrors.NewForbidden(resource, "csi-x", errors.New("exceeded quota")),
		"is invalid: spec.attacher":                 apierrors.NewInvalid(schema.GroupKind{Kind: "VolumeAttachment"}, "csi-x", field.ErrorList{field.Required(field.NewPath("spec", "attacher"), "")}),
		"failed calling webhook":                    apierrors.NewInternalError(errors.New("failed calling webhook")),
		"is forbidden: " + strings.Repeat("x", 100): apierrors.NewForbidden(resource, "csi-x", errors.New(strings.Repeat("x", 100_000))),
	} {
		inWorld(t, func(w *world) {
			heal := w.Server.Inject(apitest.Fault{
				Call:    apitest.Call{Verb: apitest.Create, Resource: "volumeattachments", Identity: identity},
				Failure: func(apitest.Call) error { return failure },
			})
			w.addDisks(single)
			w.start()
			w.addPod("one", "a", "single")
			w.Wait(time.Hour)
			events := w.announced()
			require.Len(t, events, 1)
			require.Contains(t, events[0], `one FailedAttachVolume: AttachVolume.Attach failed for volume "single": `)
			require.Contains(t, events[0], want)
			require.LessOrEqual(t, len(events[0]), 1024+len("one FailedAttachVolume: "), "a longer message is no valid event")
			require.Less(t, len(w.took()), 60, "a pause grows")
			heal()
			w.Wait(5 * time.Minute)
			w.settle()
			require.Equal(t, "single attached to a, single on a", w.state())
		})
	}
}

// TestPlugin: a plugin attaches and detaches, and the holder shows where the volume may be.
func TestPlugin(t *testing.T) {
	inWorld(t, func(w *world) {
		w.attachDisk(plugged)
		require.Equal(t, "plugged on a at /dev/plugged", w.state())
		require.Equal(t, "a", w.holder())
		w.deletePod("one")
		w.addPod("two", "b", "plugged")
		w.settle()
		require.Equal(t, "plugged on b at /dev/plugged", w.state())
		require.Equal(t, "b", w.holder())
		w.deletePod("two")
		w.settle()
		require.Empty(t, w.state())
		require.Empty(t, w.holder())
		require.Equal(t, []string{"attach plugged to a", "detach plugged from a", "attach plugged to b", "detach plugged from b"}, w.asked())
	})
}

// TestManyNodes: the calls of a plugin for many nodes begin together, and cost one write of the volume before
// the attaches and one after the detaches, and one of each node.
func TestManyNodes(t *testing.T) {
	inWorld(t, func(w *world) {
		const count = 100
		disk := diskSpec{name: "plugged", isPlugin: true, isShared: true}
		w.addDisks(disk)
		for i := range count {
			name := fmt.Sprint("node-", i)
			_, err := w.Cluster.Nodes().Create(w.Context(), newNode(name, v1.ConditionTrue), metav1.CreateOptions{})
			require.NoError(t, err)
			w.addPod("pod-"+name, name, "plugged")
		}
		w.start()
		w.Wait(time.Minute)
		require.Len(t, w.asked(), count)
		require.Less(t, len(w.took()), 2*count)
		for i := range count {
			w.deletePod(fmt.Sprint("pod-node-", i))
		}
		w.Wait(time.Minute)
		require.Len(t, w.asked(), count)
		require.Less(t, len(w.took()), 4*count)
		require.Empty(t, w.holder())
		require.Empty(t, w.state())
	})
}

// holder returns the nodes of the holder of the volume of the plugin.
func (w *world) holder() string {
	w.Helper()
	pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), "plugged", metav1.GetOptions{})
	require.NoError(w, err)
	var holder struct{ Nodes []string }
	if value, ok := pv.Annotations[attach.HolderAnnotation]; ok {
		require.NoError(w, json.Unmarshal([]byte(value), &holder))
	}
	return strings.Join(holder.Nodes, " ")
}

// TestPutBack: volumesAttached names a volume again after a detach without an effect, and not after an
// uncertain one.
func TestPutBack(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Backoff = time.Minute
		w.attachDisk(plugged)
		w.announced()
		w.fail(func(string) error { return errors.New("broken") })
		w.deletePod("one")
		w.settle()
		require.Equal(t, "plugged on a at /dev/plugged", w.state())
		require.Equal(t, []string{`plugged FailedDetachVolume: DetachVolume.Detach failed for volume "plugged" on node "a": broken`}, w.announced())
		w.fail(func(string) error { return volume.AsUncertain(errors.New("broken")) })
		w.Wait(time.Minute)
		require.Empty(t, w.state(), "an uncertain volume is not used")
		require.Equal(t, "a", w.holder())
		w.fail(nil)
		w.Wait(10 * time.Minute)
		require.Empty(t, w.holder())
	})
}

// TestCanAttachFails: a plugin that cannot say whether it attaches a volume attaches no volume; volumes are
// still detached, and those in use stay.
func TestCanAttachFails(t *testing.T) {
	inWorld(t, func(w *world) {
		disk := diskSpec{name: "plugged", isPlugin: true, isShared: true}
		w.addDisks(disk)
		w.start()
		w.addPod("one", "a", "plugged")
		w.addPod("two", "b", "plugged")
		w.settle()
		w.asked()
		w.announced()
		w.setCanAttach(errors.New("broken"))
		w.deletePod("one")
		w.settle()
		require.Equal(t, []string{"detach plugged from a"}, w.asked())
		require.Equal(t, "plugged on b at /dev/plugged", w.state())
		w.addPod("three", "a", "plugged")
		w.Wait(time.Minute)
		require.Empty(t, w.asked())
		require.Equal(t, []string{`three FailedAttachVolume: AttachVolume.Attach failed for volume "plugged": query the plugin: broken`}, w.announced())
		w.setCanAttach(nil)
		w.Wait(5 * time.Minute)
		require.Equal(t, []string{"attach plugged to a"}, w.asked())
	})
}

// setCanAttach sets the error of each later call of CanAttach.
func (w *world) setCanAttach(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.canAttach = err
}

// TestDangling: a volume is detached from the node that an error names.
func TestDangling(t *testing.T) {
	inWorld(t, func(w *world) {
		isDetached := false
		w.fail(func(call string) error {
			if call == "detach plugged from b" {
				isDetached = true
			}
			if call == "attach plugged to a" && !isDetached {
				return &volume.DanglingAttachError{CurrentNode: "b"}
			}
			return nil
		})
		w.addDisks(plugged)
		w.start()
		w.addPod("one", "a", "plugged")
		w.Wait(time.Minute)
		require.Equal(t, []string{"attach plugged to a", "detach plugged from b", "attach plugged to a"}, w.asked())
		require.Equal(t, "plugged on a at /dev/plugged", w.state())
	})
}

// TestDanglingInUse: a node that uses the volume keeps it.
func TestDanglingInUse(t *testing.T) {
	inWorld(t, func(w *world) {
		w.fail(func(string) error { return &volume.DanglingAttachError{CurrentNode: "b"} })
		w.use("b", plugged)
		w.addDisks(plugged)
		w.start()
		w.addPod("one", "a", "plugged")
		w.Wait(time.Hour)
		require.Equal(t, []string{"attach plugged to a"}, w.asked())
	})
}

// TestRestart: after a restart volumes of plugins are uncertain. A wanted one is attached again, another one
// is detached, also if only the holder shows it.
func TestRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		other := diskSpec{name: "other", isPlugin: true}
		w.addDisks(plugged, other)
		end := w.start()
		w.addPod("one", "a", "plugged")
		w.addPod("two", "a", "other")
		w.settle()
		w.asked()
		w.took()
		end()
		w.deletePod("one")
		w.changeNode("a", func(n *v1.Node) { n.Status.VolumesAttached = n.Status.VolumesAttached[:1] })
		w.Wait(time.Hour)
		w.start()
		w.settle()
		w.Wait(time.Minute)
		calls := w.asked()
		slices.Sort(calls)
		require.Equal(t, []string{"attach other to a", "detach plugged from a"}, calls)
		require.Equal(t, "other on a at /dev/other", w.state())
		require.Empty(t, w.holder())
	})
}

// TestCallOfOtherRun: a new run waits until an attach of the run before has ended.
func TestCallOfOtherRun(t *testing.T) {
	for _, d := range []diskSpec{single, plugged} {
		inWorld(t, func(w *world) {
			w.addDisks(d)
			end := w.start()
			w.addPod("one", "a", d.name)
			w.settle()
			end()
			w.asked()
			w.deletePod("one")
			w.addPod("two", "b", d.name)
			w.start()
			w.settle()
			w.Wait(time.Minute)
			require.NotContains(t, w.state(), " b")
			require.Empty(t, w.asked())
			w.Wait(5 * time.Minute)
			w.settle()
			require.Contains(t, w.state(), d.name+" on b")
		})
	}
}

// TestOtherController: a VolumeAttachment of another controller that the cache does not have yet keeps an
// exclusive volume from being attached to a second node.
func TestOtherController(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single)
		w.start()
		w.Server.InjectEvents(apitest.EventFault{Resource: "volumeattachments", Identity: identity, Share: 1, Delay: time.Hour})
		w.holdByOther("single", "a", time.Now().Add(-time.Hour), time.Time{})
		name := "csi-" + fmt.Sprintf("%x", sha256.Sum256([]byte("single"+driver+"a")))
		_, err := w.Cluster.VolumeAttachments().Create(w.Context(), &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: storagev1.VolumeAttachmentSpec{
				Attacher: driver, NodeName: "a", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &single.name},
			},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		w.Wait(time.Millisecond)
		w.took()
		w.addPod("two", "b", "single")
		w.Wait(10 * time.Millisecond)
		require.NotContains(t, w.took(), "create volumeattachments")
		w.Wait(3 * time.Hour)
		w.settle()
		w.Wait(3 * time.Hour)
		require.Equal(t, "single attached to b, single on b", w.state())
	})
}

// TestHolderConflict: of two controllers that find a volume free, one attaches it.
func TestHolderConflict(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single)
		w.start()
		w.Server.InjectEvents(apitest.EventFault{Resource: "persistentvolumes", Identity: identity, Share: 1, Delay: time.Hour})
		w.holdByOther("single", "b", time.Now(), time.Now().Add(2*time.Minute))
		w.addPod("one", "a", "single")
		w.Wait(time.Minute)
		require.Empty(t, w.state())
		w.Wait(2 * time.Minute)
		w.settle()
		require.Equal(t, "single attached to a, single on a", w.state())
	})
}

// TestStatusVersion: a write to the status of a node keeps the entries that the cache has not seen.
func TestStatusVersion(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single)
		w.start()
		w.Server.InjectEvents(apitest.EventFault{Resource: "nodes", Identity: identity, Share: 1, Delay: time.Hour})
		w.changeNode("a", func(n *v1.Node) { n.Status.VolumesAttached = []v1.AttachedVolume{{Name: "example.com/other/disk"}} })
		w.addPod("one", "a", "single")
		w.settle()
		require.Equal(t, "disk on a, single attached to a, single on a", w.state())
	})
}

// TestTransientAfterUncertain: a transient error leaves the outcome of an earlier call open, so that the
// volume is detached before it is attached to another node.
func TestTransientAfterUncertain(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Backoff = time.Second
		failures := []error{volume.AsUncertain(errors.New("lost")), volume.AsTransient(errors.New("busy"))}
		w.fail(func(string) (err error) {
			if len(failures) > 0 {
				err, failures = failures[0], failures[1:]
			}
			return err
		})
		w.addDisks(plugged)
		w.start()
		w.addPod("one", "a", "plugged")
		w.Wait(1500 * time.Millisecond)
		require.Equal(t, []string{"attach plugged to a", "attach plugged to a"}, w.asked())
		w.deletePod("one")
		w.addPod("two", "b", "plugged")
		w.Wait(time.Minute)
		require.Equal(t, []string{"detach plugged from a", "attach plugged to b"}, w.asked())
	})
}

// TestAttachOfOtherController: another controller attaches a volume to a node that this one has seen it detached from. It
// is detached later, also after this controller has become the holder and all calls of the other one have ended.
func TestAttachOfOtherController(t *testing.T) {
	inWorld(t, func(w *world) {
		d := diskSpec{name: "plugshared", isPlugin: true, isShared: true}
		w.addDisks(d)
		_, err := w.Cluster.Nodes().Create(w.Context(), newNode("c", v1.ConditionTrue), metav1.CreateOptions{})
		require.NoError(t, err)
		w.config.Backoff, w.config.MaxBackoff = 12*time.Hour, 12*time.Hour
		w.fail(func(string) error { return volume.AsTransient(errors.New("busy")) })
		w.start()
		w.addPod("one", "a", d.name)
		w.settle()
		w.fail(nil)
		w.holdByOther(d.name, "a", time.Now(), time.Now().Add(2*time.Minute))
		for _, node := range []string{"b", "c"} { // the second write of the holder no longer shows the other run
			w.addPod("on-"+node, node, d.name)
			w.Wait(3 * time.Minute)
		}
		require.Equal(t, []string{"attach plugshared to a", "attach plugshared to b", "attach plugshared to c"}, w.asked())
		w.deletePod("one")
		w.Wait(12 * time.Hour) // the pause after the failure
		require.Equal(t, []string{"detach plugshared from a"}, w.asked())
	})
}

// TestOrphan: a VolumeAttachment whose persistent volume has gone is deleted, unless its node uses it.
func TestOrphan(t *testing.T) {
	for _, isUsed := range []bool{false, true} {
		inWorld(t, func(w *world) {
			end := w.attachSingle()
			end()
			w.deletePod("one")
			w.changeNode("a", func(n *v1.Node) { n.Status.VolumesAttached = nil })
			if isUsed {
				w.use("a", single)
			}
			pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), "single", metav1.GetOptions{})
			require.NoError(t, err)
			pv.Finalizers = nil
			_, err = w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
			require.NoError(t, err)
			require.NoError(t, w.Cluster.PersistentVolumes().Delete(w.Context(), "single", metav1.DeleteOptions{}))
			w.Wait(5 * time.Minute)
			w.start()
			w.settle()
			if isUsed {
				require.Equal(t, "single attached to a", w.state())
				w.use("a")
				w.settle()
			}
			require.Empty(t, w.state())
		})
	}
}

// TestDetachAfterRestart: a CSI volume that an earlier run has attached just before is detached at once. Another
// node has it only when no call of that run can take effect any more.
func TestDetachAfterRestart(t *testing.T) {
	inWorld(t, func(w *world) {
		end := w.attachSingle()
		end()
		w.start()
		w.deletePod("one")
		w.addPod("two", "b", "single")
		w.settle()
		w.settle()
		require.Empty(t, w.state())
		w.Wait(5 * time.Minute)
		w.settle()
		require.Equal(t, "single attached to b, single on b", w.state())
	})
}

// TestOwnedLate: the claim of an ephemeral volume counts once the pod owns it, also after it was bound.
func TestOwnedLate(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(diskSpec{name: "one-data"})
		w.start()
		pod := newPod("one", "a", "")
		pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{}}}
		pod, err := w.Cluster.Pods(namespace).Create(w.Context(), pod, metav1.CreateOptions{})
		require.NoError(t, err)
		w.settle()
		require.Empty(t, w.state())
		claims := w.Cluster.PersistentVolumeClaims(namespace)
		claim, err := claims.Get(w.Context(), "one-data", metav1.GetOptions{})
		require.NoError(t, err)
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))}
		_, err = claims.Update(w.Context(), claim, metav1.UpdateOptions{})
		require.NoError(t, err)
		w.settle()
		require.Equal(t, "one-data attached to a, one-data on a", w.state())
	})
}

// TestUnbound: a claim and a volume that are not bound to each other are not attached.
func TestUnbound(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single)
		pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), "single", metav1.GetOptions{})
		require.NoError(t, err)
		uid := pv.Spec.ClaimRef.UID
		pv.Spec.ClaimRef.UID = "another"
		pv, err = w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
		require.NoError(t, err)
		w.start()
		w.addPod("one", "a", "single")
		w.settle()
		require.Empty(t, w.state())
		pv.Spec.ClaimRef.UID = uid
		_, err = w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
		require.NoError(t, err)
		w.settle()
		require.Equal(t, "single attached to a, single on a", w.state())
	})
}

// TestConfig: an invalid configuration names the field.
func TestConfig(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	valid := attach.Config{Cluster: server.Direct()}
	valid.Timeout = 55 * time.Minute
	_, err := attach.New(valid)
	require.NoError(t, err)
	longTimeout := valid
	longTimeout.Timeout++
	_, err = attach.New(longTimeout)
	require.ErrorContains(t, err, `Config.Timeout: Invalid value: "55m0.000000001s": must be at most 55m0s`)
	for name, change := range map[string]func(*attach.Config){
		"Config.Cluster":        func(c *attach.Config) { c.Cluster = nil },
		"Config.UnhealthyAfter": func(c *attach.Config) { c.UnhealthyAfter = -1 },
		"Config.Workers":        func(c *attach.Config) { c.Workers = -1 },
		"Config.Timeout":        func(c *attach.Config) { c.Timeout = -1 },
		"Config.Backoff":        func(c *attach.Config) { c.Backoff = -1 },
		"Config.MaxBackoff":     func(c *attach.Config) { c.MaxBackoff = -1 },
	} {
		config := valid
		change(&config)
		_, err := attach.New(config)
		var bad *field.Error
		require.ErrorAs(t, err, &bad)
		require.Equal(t, name, bad.Field)
	}
}

// TestNewsBeforeReplays: a new pod does not wait for the volumes of the first list.
func TestNewsBeforeReplays(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Workers = 1
		var disks []diskSpec
		for i := range 50 {
			disks = append(disks, diskSpec{name: fmt.Sprint("disk-", i), isShared: true})
		}
		w.addDisks(append(disks, single)...)
		end := w.start()
		for _, d := range disks {
			w.addPod("a-"+d.name, "a", d.name)
		}
		w.settle()
		end()
		for _, d := range disks {
			w.addPod("b-"+d.name, "b", d.name)
		}
		w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create, Identity: identity}, Latency: time.Second})
		w.start()
		w.addPod("new", "a", "single")
		w.Wait(5 * time.Second)
		require.Contains(t, w.state(), "single attaching to a")
		require.NotContains(t, w.state(), "disk-49 attaching to b")
	})
}

// TestLyingNode: a node whose status names a volume that it does not have blocks the volume, and the event
// names the node. Its taint, and the deletion of its Node object, free the volume.
func TestLyingNode(t *testing.T) {
	lie := func(n *v1.Node) {
		n.Status.VolumesAttached = []v1.AttachedVolume{{Name: plugged.id()}}
		n.Status.VolumesInUse = []v1.UniqueVolumeName{plugged.id()}
	}
	for name, test := range map[string]struct {
		repeats, isUnmanaged bool
		free                 func(*world)
		want                 []string // the first calls
	}{
		"taint":                              {false, false, (*world).taintA, []string{"detach plugged from a", "attach plugged to b"}},
		"taint of a node that repeats a lie": {true, false, (*world).taintA, []string{"detach plugged from a", "attach plugged to b"}},
		"deletion":                           {false, false, (*world).deleteA, []string{"detach plugged from a", "attach plugged to b"}},
		"deletion of an unmanaged node":      {true, true, (*world).deleteA, []string{"attach plugged to b"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.addDisks(plugged)
				w.start()
				w.changeNode("a", func(n *v1.Node) {
					lie(n)
					n.Annotations[managed] = fmt.Sprint(!test.isUnmanaged)
				})
				w.Wait(time.Second)
				w.addPod("two", "b", "plugged")
				for range 60 {
					w.Wait(time.Minute)
					if test.repeats {
						w.changeNode("a", lie)
					}
				}
				require.Empty(t, w.asked())
				require.Equal(t, []string{`two FailedAttachVolume: Multi-Attach error for volume "plugged": the volume is attached to node "a", which has to detach it first`}, w.announced())
				test.free(w)
				for range 500 {
					w.Wait(time.Second)
					if test.repeats && !test.isUnmanaged {
						w.changeNode("a", lie)
					}
				}
				require.Contains(t, w.state(), "plugged on b")
				calls := w.asked()
				require.Equal(t, test.want, calls[:len(test.want)])
			})
		})
	}
}

func (w *world) taintA() {
	w.Helper()
	w.changeNode("a", func(n *v1.Node) {
		n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}
	})
}

func (w *world) deleteA() {
	w.Helper()
	require.NoError(w, w.Cluster.Nodes().Delete(w.Context(), "a", metav1.DeleteOptions{}))
}

// TestEarlierVolume: the VolumeAttachment of an earlier persistent volume of the same name is deleted once its
// node uses neither the earlier volume nor the present one, as drivers detach by the present handle.
func TestEarlierVolume(t *testing.T) {
	other := diskSpec{name: "other"} // has the handle of the present volume
	for name, test := range map[string]func(*world){
		"unused": func(w *world) {
			w.use("a")
			w.settle()
			require.Equal(w, "other on b, single attached to b", w.state())
		},
		"the earlier volume in use": func(w *world) {
			w.settle()
			require.Equal(w, "single attached to a", w.state())
			require.Equal(w, []string{`two FailedAttachVolume: Multi-Attach error for volume "single": the volume is attached to node "a", which has to detach it first`}, w.announced())
			w.use("a")
			w.settle()
			require.Equal(w, "other on b, single attached to b", w.state())
		},
		"the present volume in use": func(w *world) {
			w.use("a", other)
			w.settle()
			require.Equal(w, "single attached to a", w.state())
			w.use("a")
			w.settle()
			require.Equal(w, "other on b, single attached to b", w.state())
		},
		"the earlier volume under another name": func(w *world) {
			twin := diskSpec{name: "twin"}.object("none")
			twin.Spec.CSI.VolumeHandle = "single"
			_, err := w.Cluster.PersistentVolumes().Create(w.Context(), twin, metav1.CreateOptions{})
			require.NoError(w, err)
			w.use("a", other)
			w.settle()
			require.Equal(w, "single attached to a", w.state())
			w.use("a")
			w.settle()
			require.Equal(w, "other on b, single attached to b", w.state())
		},
		"a dead node": func(w *world) {
			w.taintA()
			w.settle()
			require.Equal(w, "other on b, single attached to b", w.state())
			require.Len(w, w.forcedDetaches(), 1)
		},
		"a pod of the same node": func(w *world) {
			w.deletePod("two")
			w.use("a", single, other)
			w.addPod("three", "a", "single")
			w.settle()
			require.Equal(w, "single attached to a", w.state())
			w.use("a", other)
			w.settle()
			require.Contains(w, w.state(), "other on a")
			w.changeNode("a", func(n *v1.Node) {
				n.Status.VolumesAttached = append(n.Status.VolumesAttached, v1.AttachedVolume{Name: single.id()})
			})
			w.Wait(time.Hour)
			require.Equal(w, "other on a, single attached to a, single attached to a", w.state())
			w.deletePod("three")
			w.settle()
			require.Equal(w, "single attached to a, single attached to a", w.state(), "in use")
			w.use("a")
			w.settle()
			w.settle()
			require.Empty(w, w.state())
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				end := w.attachSingle()
				end()
				w.deletePod("one")
				w.use("a", single)
				w.replaceVolume("single", "other")
				w.Wait(5 * time.Minute)
				w.announced()
				w.addPod("two", "b", "single")
				w.start()
				w.settle()
				test(w)
				w.Wait(10 * time.Second) // a write may be repeated once
				w.took()
				w.Wait(time.Hour)
				require.Empty(w, w.took())
			})
		})
	}
}

// replaceVolume deletes a volume and creates one of the same name with another handle, for the same claim.
func (w *world) replaceVolume(name, handle string) {
	w.Helper()
	volumes := w.Cluster.PersistentVolumes()
	pv, err := volumes.Get(w.Context(), name, metav1.GetOptions{})
	require.NoError(w, err)
	pv.Finalizers = nil
	_, err = volumes.Update(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
	require.NoError(w, volumes.Delete(w.Context(), name, metav1.DeleteOptions{}))
	next := diskSpec{name: name}.object(pv.Spec.ClaimRef.UID)
	next.Spec.CSI.VolumeHandle = handle
	_, err = volumes.Create(w.Context(), next, metav1.CreateOptions{})
	require.NoError(w, err)
}

// TestMemory: the memory of the controller has no volume, node or pod that has gone.
func TestMemory(t *testing.T) {
	inWorld(t, func(w *world) {
		w.config.Backoff = time.Second
		w.start()
		w.changeNode("b", func(n *v1.Node) {
			n.Status.Allocatable = v1.ResourceList{"attachable-volumes-csi-" + driver: resource.MustParse("0")}
		})
		for round, failure := range []error{
			nil, volume.AsUncertain(errors.New("lost")), volume.AsTransient(errors.New("busy")), errors.New("broken"),
			&volume.DanglingAttachError{CurrentNode: "b"},
		} {
			w.live(round, failure)
		}
		require.NotContains(t, w.latest.Remembered(), "waiting")
		for _, name := range []string{"a", "b"} {
			require.NoError(t, w.Cluster.Nodes().Delete(w.Context(), name, metav1.DeleteOptions{}))
		}
		for range 20 {
			w.Wait(10 * time.Minute)
			w.settle()
		}
		require.Empty(t, w.state())
		require.Empty(t, w.latest.Remembered())
	})
}

// TestLostCallIsForgotten: a creation without an answer is forgotten with its volume.
func TestLostCallIsForgotten(t *testing.T) {
	inWorld(t, func(w *world) {
		w.addDisks(single)
		w.Server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create, Identity: identity}, Failure: apitest.Refused})
		w.start()
		w.addPod("one", "a", "single")
		w.Wait(time.Millisecond)
		w.deletePod("one")
		w.deleteDisk(single)
		w.Wait(time.Second)
		require.Equal(t, 1, w.latest.Remembered()["lost"])
		w.Wait(time.Hour)
		require.NotContains(t, w.latest.Remembered(), "lost")
	})
}

// live lets nodes, volumes and pods come and go, while calls fail.
func (w *world) live(round int, failure error) {
	w.Helper()
	node, gone := fmt.Sprint("node-", round), fmt.Sprint("gone-", round)
	object := newNode(node, v1.ConditionTrue)
	object.Status.Allocatable = v1.ResourceList{"attachable-volumes-csi-" + driver: resource.MustParse("2")}
	_, err := w.Cluster.Nodes().Create(w.Context(), object, metav1.CreateOptions{})
	require.NoError(w, err)
	var disks []diskSpec
	for i := range 6 {
		disks = append(disks, diskSpec{name: fmt.Sprint("disk-", round, "-", i), isShared: i%2 == 0, isPlugin: i >= 4})
	}
	w.addDisks(disks...)
	w.fail(func(string) error { return failure })
	faults := []func(){func() {}}
	if round > 0 {
		faults = append(faults, w.Server.Inject(apitest.Fault{
			Call: apitest.Call{Verb: apitest.Create, Resource: "volumeattachments", Identity: identity}, Share: 0.5,
			Failure: []apitest.Failure{nil, apitest.Refused, apitest.Unauthorized, apitest.InternalError, apitest.Expired}[round],
		}))
	}
	for _, d := range disks {
		for _, on := range []string{node, "a", "b", gone} {
			w.addPod(d.name+"-"+on, on, d.name)
			if d.isPlugin {
				w.addInlinePod("inline-"+d.name+"-"+on, on, "inline-"+d.name)
			}
		}
	}
	w.settle()
	w.Wait(time.Minute)
	w.settle()
	w.use(node, disks[0])
	if round%2 == 0 {
		require.NoError(w, w.Cluster.Nodes().Delete(w.Context(), node, metav1.DeleteOptions{}))
	}
	pods, err := w.Cluster.Pods(namespace).List(w.Context(), metav1.ListOptions{})
	require.NoError(w, err)
	for _, pod := range pods.Items {
		w.deletePod(pod.Name)
	}
	w.Wait(time.Minute)
	w.settle()
	for _, end := range faults {
		end()
	}
	w.fail(nil)
	for range 3 {
		w.Wait(10 * time.Minute)
		w.settle()
	}
	for _, d := range disks {
		w.deleteDisk(d)
	}
	if round%2 != 0 {
		require.NoError(w, w.Cluster.Nodes().Delete(w.Context(), node, metav1.DeleteOptions{}))
	}
}

// deleteDisk deletes a volume and its claim.
func (w *world) deleteDisk(d diskSpec) {
	w.Helper()
	pv, err := w.Cluster.PersistentVolumes().Get(w.Context(), d.name, metav1.GetOptions{})
	require.NoError(w, err)
	pv.Finalizers = nil
	_, err = w.Cluster.PersistentVolumes().Update(w.Context(), pv, metav1.UpdateOptions{})
	require.NoError(w, err)
	require.NoError(w, w.Cluster.PersistentVolumes().Delete(w.Context(), d.name, metav1.DeleteOptions{}))
	claim, err := w.Cluster.PersistentVolumeClaims(namespace).Get(w.Context(), d.name, metav1.GetOptions{})
	require.NoError(w, err)
	claim.Finalizers = nil
	_, err = w.Cluster.PersistentVolumeClaims(namespace).Update(w.Context(), claim, metav1.UpdateOptions{})
	require.NoError(w, err)
	require.NoError(w, w.Cluster.PersistentVolumeClaims(namespace).Delete(w.Context(), d.name, metav1.DeleteOptions{}))
}

// addInlinePod creates a pod with a volume of the plugin in its spec.
func (w *world) addInlinePod(name, node, disk string) {
	w.Helper()
	pod := newPod(name, node, "")
	pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{NFS: &v1.NFSVolumeSource{Server: "server", Path: "/" + disk}}
	_, err := w.Cluster.Pods(namespace).Create(w.Context(), pod, metav1.CreateOptions{})
	require.NoError(w, err)
}
