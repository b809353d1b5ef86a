package manager_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// An exampleNode is a node in memory, with one claim and its volume, "data".
type exampleNode struct {
	dir     string
	source  *manager.MemorySource
	config  manager.Config
	manager *manager.Manager
	stop    func()
}

// startExample starts a manager, or panics. A real agent has a mount.New, and plugins such as local.New.
func startExample(change func(*manager.Config)) *exampleNode {
	n := new(exampleNode)
	if err := n.start(change); err != nil {
		panic(err) // an example has no test to fail
	}
	return n
}

func (n *exampleNode) start(change func(*manager.Config)) error {
	dir, err := os.MkdirTemp("", "manager-example-")
	if err != nil {
		return err
	}
	if n.dir, err = filepath.EvalSymlinks(dir); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(n.dir, "disk"), 0o755); err != nil {
		return err
	}
	host, err := volume.NewHost(context.Background(), n.dir, volume.WithNodeName("node-1"))
	if err != nil {
		return err
	}
	kernel := mounttest.NewFake(mount.Config{})
	plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: kernel, NoDeviceMount: true})
	plugins, err := volume.NewVolumePluginMgr(context.Background(), host, plugin)
	if err != nil {
		return err
	}
	n.source = manager.NewMemorySource()
	pv := plugin.NewSpec("data", filepath.Join(n.dir, "disk")).PersistentVolume
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "default", Name: "data", UID: "claim"}
	n.source.SetVolume(pv)
	n.source.SetClaim(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", UID: "claim"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "data"},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	})
	n.config = manager.Config{Plugins: plugins, Mounter: kernel, Pods: n.source, Claims: n.source}
	if change != nil {
		change(&n.config)
	}
	if n.manager, err = manager.New(n.config); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.manager.Run(ctx) }()
	n.stop = func() {
		cancel()
		<-ended
		_ = os.RemoveAll(n.dir) // nothing is mounted but in memory
	}
	return nil
}

// examplePod wants a claim's volume.
func examplePod(uid types.UID, claim string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: uid},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "files", MountPath: "/files"}}}},
			Volumes: []v1.Volume{{Name: "files", VolumeSource: v1.VolumeSource{
				PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
		},
	}
}

// up adds the pod and waits for its volumes.
func (n *exampleNode) up(pod *v1.Pod) error {
	n.source.SetPod(pod)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return n.manager.WaitForAttachAndMount(ctx, pod)
}

func (n *exampleNode) mustUp(pod *v1.Pod) {
	if err := n.up(pod); err != nil {
		panic(err)
	}
}

// down removes the pod and waits until its volumes are down.
func (n *exampleNode) down(pod *v1.Pod) error {
	n.source.RemovePod(pod.UID)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return n.manager.WaitForUnmount(ctx, pod)
}

func ExampleManager() {
	n := startExample(nil)
	defer n.stop()
	pod := examplePod("uid-1", "data")
	fmt.Println("up:", n.up(pod))
	fmt.Println("in use:", len(n.manager.GetVolumesInUse()))
	fmt.Println("down:", n.down(pod))
	// Output:
	// up: <nil>
	// in use: 1
	// down: <nil>
}

// An agent that reports a pod as failed, rather than wait for a volume that never comes.
func ExampleManager_WaitForVolumes() {
	n := startExample(nil)
	defer n.stop()
	pod := examplePod("uid-1", "data")
	pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{RBD: &v1.RBDVolumeSource{}}
	fmt.Println("source:", n.source.SetPod(pod))
	err := n.manager.WaitForVolumes(context.Background(), pod, manager.WaitOptions{EndOnFinalError: true})
	fmt.Println("final:", errors.Is(err, manager.ErrFinal))
	var failed *manager.WaitError
	if errors.As(err, &failed) {
		fmt.Println(failed.Volumes[0].Name, "has a plugin:", !errors.Is(failed.Volumes[0].Err, volume.ErrNoPluginMatched))
	}
	// Output:
	// source: <nil>
	// final: true
	// files has a plugin: false
}

func ExampleConfig() {
	_, err := manager.New(manager.Config{})
	fmt.Println(err)
	// Output: manager: Config.Plugins: Required value: a manager has no default for this field
}

func ExampleMemorySource() {
	source := manager.NewMemorySource()
	source.SetPod(examplePod("uid-1", "data"))
	<-source.Changed()
	pods, err := source.Pods(context.Background())
	fmt.Println(len(pods), err)
	// Output: 1 <nil>
}

// podInformer reports each changed pod, so that the manager reads no other pod. An agent calls
// OnPod in the event handlers of an informer that is limited to the pods of its node.
type podInformer struct {
	pods    map[types.UID]*v1.Pod
	changed func(manager.Change)
}

func (s *podInformer) Pods(context.Context) ([]*v1.Pod, error) {
	return slices.Collect(maps.Values(s.pods)), nil
}

func (s *podInformer) Pod(_ context.Context, uid types.UID) (*v1.Pod, error) {
	if pod, ok := s.pods[uid]; ok {
		return pod, nil
	}
	return nil, fs.ErrNotExist
}

func (s *podInformer) Changed() <-chan struct{} { return nil } // replaced by Subscribe

func (s *podInformer) Subscribe(changed func(manager.Change)) (unsubscribe func()) {
	s.changed = changed
	return func() {}
}

// OnPod handles a pod that is added or updated.
func (s *podInformer) OnPod(pod *v1.Pod) {
	s.pods[pod.UID] = pod
	s.changed(manager.Change{Pods: []types.UID{pod.UID}})
}

func ExampleIncrementalPodSource() {
	var pods manager.IncrementalPodSource = &podInformer{pods: map[types.UID]*v1.Pod{}}
	unsubscribe := pods.Subscribe(func(change manager.Change) { fmt.Println("changed:", change.Pods) })
	defer unsubscribe()
	pods.(*podInformer).OnPod(examplePod("uid-1", "data"))
	pod, err := pods.Pod(context.Background(), "uid-1")
	fmt.Println(pod.Name, err)
	// Output:
	// changed: [uid-1]
	// web <nil>
}

// A staticPod is the only pod of its node, and never changes.
type staticPod struct{ pod *v1.Pod }

func (s staticPod) Pods(context.Context) ([]*v1.Pod, error) { return []*v1.Pod{s.pod}, nil }
func (s staticPod) Changed() <-chan struct{}                { return nil }

// Without claims a source of pods is enough.
func ExamplePodSource() {
	pod := examplePod("uid-1", "")
	pod.Spec.Volumes[0].VolumeSource = v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/srv"}}
	n := startExample(func(c *manager.Config) { c.Pods, c.Claims = staticPod{pod}, nil })
	defer n.stop()
	for len(n.manager.State().Failed) == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("has a plugin:", !errors.Is(n.manager.State().Failed[0].Err, volume.ErrNoPluginMatched))
	// Output: has a plugin: false
}

// A nodeCache is the part of an API server's objects that one node needs, as informers and
// clients of an agent have it. The manager and the plugins share it; a controller that takes a
// volume.ClaimReader takes it, too.
type nodeCache struct {
	mu         sync.Mutex
	claims     map[types.NamespacedName]*v1.PersistentVolumeClaim
	volumes    map[string]*v1.PersistentVolume
	configMaps map[types.NamespacedName]*v1.ConfigMap
	changed    func(manager.Change)
}

var (
	_ volume.ClaimReader      = (*nodeCache)(nil)
	_ content.ConfigMapGetter = (*nodeCache)(nil)
	_ manager.ChangeNotifier  = (*nodeCache)(nil)
)

func (c *nodeCache) GetPersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return cached(c, c.claims, types.NamespacedName{Namespace: namespace, Name: name})
}

func (c *nodeCache) GetPersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	return cached(c, c.volumes, name)
}

func (c *nodeCache) GetConfigMap(_ context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return cached(c, c.configMaps, types.NamespacedName{Namespace: namespace, Name: name})
}

// cached returns an object, or the error of a client.
func cached[K comparable, T any](c *nodeCache, all map[K]*T, name K) (*T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if object, ok := all[name]; ok {
		return object, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, fmt.Sprint(name))
}

func (c *nodeCache) Subscribe(changed func(manager.Change)) (unsubscribe func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed = changed
	return func() {}
}

// OnClaim handles a claim that is added or updated.
func (c *nodeCache) OnClaim(claim *v1.PersistentVolumeClaim) {
	name := types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claims[name] = claim
	c.changed(manager.Change{Claims: []types.NamespacedName{name}})
}

// An agent with an API server: the pods of its node come from one source, and all other
// objects from a cache.
func ExampleChangeNotifier() {
	memory := manager.NewMemorySource()
	cache := &nodeCache{claims: map[types.NamespacedName]*v1.PersistentVolumeClaim{}, volumes: map[string]*v1.PersistentVolume{}}
	n := startExample(func(c *manager.Config) {
		pv, _ := c.Claims.GetPersistentVolume(context.Background(), "data")
		cache.volumes[pv.Name] = pv
		c.Pods, c.Claims = memory, cache
	})
	defer n.stop()
	_ = memory.SetPod(examplePod("uid-1", "data"))
	for len(n.manager.State().Failed) == 0 {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("no claim:", volume.IsNotFound(n.manager.State().Failed[0].Err))
	claim, _ := n.source.GetPersistentVolumeClaim(context.Background(), "default", "data")
	cache.OnClaim(claim)
	fmt.Println("up:", n.manager.WaitForAttachAndMount(context.Background(), examplePod("uid-1", "data")))
	// Output:
	// no claim: true
	// up: <nil>
}

func ExampleMountedVolume() {
	n := startExample(nil)
	defer n.stop()
	n.mustUp(examplePod("uid-1", "data"))
	v := n.manager.GetMountedVolumesForPod("uid-1")["files"]
	fmt.Println(v.Name, v.Plugin, v.Spec.Name(), v.ReadOnly, v.Block)
	fmt.Println(strings.TrimPrefix(v.Path, n.dir))
	// Output:
	// files volumekit.io/fake data false false
	// /pods/uid-1/volumes/volumekit.io~fake/data
}

func ExampleState() {
	n := startExample(nil)
	defer n.stop()
	n.mustUp(examplePod("uid-1", "data"))
	state := n.manager.State()
	fmt.Println(state.Restored, state.Populated, len(state.Volumes), len(state.Leftovers))
	fmt.Println(state.Totals())
	// Output:
	// true true 1 0
	// map[volumekit.io/fake:map[actual_state_of_world:1 desired_state_of_world:1]]
}

func ExampleVolumeState() {
	n := startExample(nil)
	defer n.stop()
	n.mustUp(examplePod("uid-1", "data"))
	for _, v := range n.manager.State().Volumes {
		fmt.Println(v.Spec.Name(), v.Attached)
	}
	// Output: data present
}

func ExamplePodState() {
	n := startExample(nil)
	defer n.stop()
	n.mustUp(examplePod("uid-1", "data"))
	for _, v := range n.manager.State().Volumes {
		for _, pod := range v.Pods {
			fmt.Println(pod.Pod, pod.Name, pod.Phase())
		}
	}
	// Output: uid-1 files mounted
}

func ExampleEvent() {
	events := make(chan manager.Event, 100)
	n := startExample(func(c *manager.Config) { c.Events = func(e manager.Event) { events <- e } })
	defer n.stop()
	n.mustUp(examplePod("uid-1", "data"))
	for range 2 {
		fmt.Println(<-events)
	}
	// Output:
	// Normal SuccessfulAttachVolume default/web files: attach: volume "data"
	// Normal SuccessfulMountVolume default/web files: set up: volume "data"
}

// The volume has grown, and its claim does not say so yet. An agent writes the new size into
// the claim's status.
func ExampleExpansion() {
	expansions := make(chan manager.Expansion, 1)
	n := startExample(func(c *manager.Config) { c.Expansions = func(e manager.Expansion) { expansions <- e } })
	defer n.stop()
	ctx := context.Background()
	pv, _ := n.source.GetPersistentVolume(ctx, "data")
	claim, _ := n.source.GetPersistentVolumeClaim(ctx, "default", "data")
	pv, claim = pv.DeepCopy(), claim.DeepCopy()
	pv.Spec.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("2Gi")}
	claim.Status.Capacity = v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	n.source.SetVolume(pv)
	n.source.SetClaim(claim)

	n.mustUp(examplePod("uid-1", "data"))
	e := <-expansions
	fmt.Println(e.Claim, e.OldSize.String(), e.NewSize.String(), e.Err)
	// Output: default/data 1Gi 2Gi <nil>
}

func ExampleWaitError() {
	n := startExample(nil)
	defer n.stop()
	pod := examplePod("uid-1", "missing")
	n.source.SetPod(pod)
	for len(n.manager.State().Failed) == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	err := n.manager.WaitForAttachAndMount(ctx, pod)
	var failed *manager.WaitError
	fmt.Println(errors.As(err, &failed), errors.Is(err, os.ErrNotExist), errors.Is(err, context.Canceled))
	// Output: true true true
}

func ExampleVolumeError() {
	n := startExample(nil)
	defer n.stop()
	n.source.SetPod(examplePod("uid-1", "missing"))
	for len(n.manager.State().Failed) == 0 {
		time.Sleep(time.Millisecond)
	}
	for _, failed := range n.manager.State().Failed {
		fmt.Println(failed.Pod, failed.Name, failed.Err)
	}
	// Output: uid-1 files claim default/missing not found
}

// A reporter prints each attach and detach, and passes the request to another attacher.
type reporter struct{ next manager.Attacher }

func (r reporter) Attach(ctx context.Context, a manager.Attachment) (string, error) {
	fmt.Println("attach", a.Spec.Name(), "to", a.Node)
	if r.next == nil {
		return "", nil
	}
	return r.next.Attach(ctx, a)
}

func (r reporter) Detach(ctx context.Context, a manager.Attachment) error {
	fmt.Println("detach", a.Volume, "from", a.Node)
	if r.next == nil {
		return nil
	}
	return r.next.Detach(ctx, a)
}

func ExampleAttacher() {
	n := startExample(func(c *manager.Config) { c.Attacher = reporter{} })
	defer n.stop()
	n.source.SetPod(examplePod("uid-1", "data"))
	for state := n.manager.State(); len(state.Volumes) == 0 || state.Volumes[0].Attached != "present"; state = n.manager.State() {
		time.Sleep(time.Millisecond)
	}
	// Output: attach data to node-1
}

func ExampleAttachment() {
	spec := volume.NewSpecFromVolume(&v1.Volume{Name: "a"})
	_, _ = reporter{}.Attach(context.Background(), manager.Attachment{Volume: "example.com/disk/a", Spec: spec, Node: "node-1"})
	// Output: attach a to node-1
}

func ExampleLeftover() {
	n := startExample(func(c *manager.Config) {
		// A volume directory left by a plugin that this node lacks.
		_ = os.MkdirAll(filepath.Join(c.Plugins.Host().Root(), "pods/uid-0/volumes/example.com~other/a/mount"), 0o755)
	})
	defer n.stop()
	for !n.manager.State().Populated {
		time.Sleep(time.Millisecond)
	}
	for _, left := range n.manager.State().Leftovers {
		fmt.Println(left.Pod, left.Plugin, strings.TrimPrefix(left.Path, n.dir))
	}
	// Output: uid-0 example.com/other /pods/uid-0/volumes/example.com~other/a
}

// histograms and counters are as Prometheus' client has them: a *prometheus.HistogramVec
// is a histograms, but for the types that With returns.
type (
	histograms interface {
		With(labels map[string]string) observer
	}
	observer interface{ Observe(float64) }
	counters interface {
		With(labels map[string]string) adder
	}
	adder interface{ Add(float64) }
)

// An adapter is a manager.Metrics that passes each value to the metric of its name. It drops
// values with unknown names.
type adapter struct {
	histograms map[string]histograms
	counters   map[string]counters
}

func (a adapter) Observe(name string, took time.Duration, labels ...manager.Label) {
	if h, ok := a.histograms[name]; ok {
		h.With(byName(labels)).Observe(took.Seconds())
	}
}

func (a adapter) Add(name string, n int, labels ...manager.Label) {
	if c, ok := a.counters[name]; ok {
		c.With(byName(labels)).Add(float64(n))
	}
}

func byName(labels []manager.Label) map[string]string {
	all := map[string]string{}
	for _, l := range labels {
		all[l.Name] = l.Value
	}
	return all
}

// A printer stands for Prometheus' client.
type printer struct {
	mu   *sync.Mutex
	seen map[string]int
}

func (p printer) With(labels map[string]string) observer {
	return observed(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.seen[labels["volume_plugin"]+" "+labels["operation_name"]+" "+labels["status"]]++
	})
}

type observed func()

func (o observed) Observe(float64) { o() }

func ExampleMetrics() {
	p := printer{&sync.Mutex{}, map[string]int{}}
	metrics := adapter{histograms: map[string]histograms{manager.OperationDuration: p}}
	n := startExample(func(c *manager.Config) { c.Metrics = metrics })
	n.mustUp(examplePod("uid-1", "data"))
	n.stop()
	fmt.Println(p.seen)
	// Output: map[volumekit.io/fake volume_attach success:1 volumekit.io/fake volume_mount success:1]
}

func ExampleLabel() {
	fmt.Println(byName([]manager.Label{{Name: "volume_plugin", Value: "kubernetes.io/nfs"}}))
	// Output: map[volume_plugin:kubernetes.io/nfs]
}
