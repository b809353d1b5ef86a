package node_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	simNamespace = "sim"
	simNodeName  = "node-1"
	simRefresh   = 15 * time.Minute // longer than simCalm: reported changes alone are in time
	simData      = "data"           // the file in each volume that keeps its files
)

// A simNode is a node: its disk, its kernel and its containers, which outlive the program.
type simNode struct {
	sim     *simulation
	root    string // of the volumes of pods
	disks   string // has the directories of the persistent volumes
	kernel  *mounttest.Fake
	drivers map[string]*volumetest.FakePlugin
	program *simProgram // nil: it does not run

	storage sync.Mutex          // held during mounts of volumes; locked before mu
	volumes map[string]*simDisk // by name

	mu     sync.Mutex      // never held during a call of the source
	isDown bool            // calls of the kernel by a program that has crashed have no effect
	ended  <-chan struct{} // closed when the API server has ended the program. Nil: never
	exists map[types.UID]bool
	locals map[types.UID]*simLocal
	up     map[string]bool // volumes that were up once, as UID/NAME
}

// A simLocal is a pod as the container runtime has it.
type simLocal struct {
	pod    *v1.Pod
	state  simState
	pins   map[string]*os.File // the directories of the volumes that the containers have, by name
	cancel context.CancelFunc  // of the wait for the volumes
}

type simState int

const (
	simAdmitted simState = iota // the program waits for the volumes; a crash forgets the pod
	simRunning
	simEnded
)

// A simKernel is the kernel as the program calls it.
type simKernel struct {
	*mounttest.Fake
	node *simNode
}

var errSimDown = errors.New("the program has crashed")

func (k simKernel) Mount(ctx context.Context, req mount.Request) error {
	if k.node.hasCrashed() {
		return errSimDown
	}
	if disk := k.node.attachable(req.Source); disk != nil {
		k.node.storage.Lock()
		defer k.node.storage.Unlock()
		k.node.checkDevice(disk, "", "is mounted at "+req.Target)
		k.node.checkInUse(disk, "is mounted at "+req.Target)
	}
	return k.Fake.Mount(ctx, req)
}

func (k simKernel) Unmount(ctx context.Context, target string) error {
	if k.node.hasCrashed() {
		return errSimDown
	}
	k.node.checkUnmount(target)
	return k.Fake.Unmount(ctx, target)
}

func (k simKernel) UnmountTree(ctx context.Context, target string) error {
	if k.node.hasCrashed() {
		return errSimDown
	}
	k.node.checkUnmount(target)
	return k.Fake.UnmountTree(ctx, target)
}

// MountNew and UnmountRemove decline: each mount and unmount passes the methods above.
func (simKernel) MountNew(context.Context, mount.Request, mount.NewDirectory) (bool, error) {
	return false, nil
}

func (simKernel) UnmountRemove(context.Context, string, mount.Patience) (unmounted, removed bool) {
	return false, false
}

func newSimNode(s *simulation, dir string) *simNode {
	n := &simNode{
		sim: s, root: dir + "/root", disks: dir + "/disks", kernel: mounttest.NewFake(mount.Config{}),
		drivers: map[string]*volumetest.FakePlugin{}, volumes: map[string]*simDisk{},
		exists: map[types.UID]bool{}, locals: map[types.UID]*simLocal{}, up: map[string]bool{},
	}
	s.must(os.Mkdir(n.root, 0o755), os.Mkdir(n.disks, 0o755))
	for _, driver := range simDrivers {
		name := simPluginName(driver)
		n.drivers[driver] = volumetest.NewFakePlugin(volumetest.FakeConfig{
			Name: name, Mounter: simKernel{n.kernel, n}, NoAttach: driver == simPlain, NoDeviceMount: driver != simShared,
			// Objects of the API have the name of the driver, reconstructed volumes that of the plugin.
			CanSupport: func(spec *volume.Spec) bool {
				pv := spec.PersistentVolume
				return pv != nil && pv.Spec.CSI != nil && (pv.Spec.CSI.Driver == driver || pv.Spec.CSI.Driver == name)
			},
			Directory: func(spec *volume.Spec) (string, error) { return spec.PersistentVolume.Spec.CSI.VolumeHandle, nil },
		})
	}
	return n
}

func (n *simNode) hasCrashed() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.ended:
		return true
	default:
		return n.isDown
	}
}

// hasContainers is node.Config.HasContainers.
func (n *simNode) hasContainers(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.locals[uid]
	return l != nil && l.state != simEnded
}

// stateOf returns the state of a local pod; known is false for other pods.
func (n *simNode) stateOf(uid types.UID) (state simState, known bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.locals[uid]; l != nil {
		return l.state, true
	}
	return 0, false
}

// running returns the pods whose containers run.
func (n *simNode) running() (all []*simLocal) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, l := range n.locals {
		if l.state == simRunning {
			all = append(all, l)
		}
	}
	return all
}

// setExists records that a pod exists, or that the test begins to finish or delete it.
func (n *simNode) setExists(uid types.UID, exists bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.exists[uid] = exists
}

// recordEvent records that a volume is up.
func (n *simNode) recordEvent(e manager.Event) {
	n.sim.log("  event %s %s: %s", e.Reason, e.PodUID, e.Message)
	if e.Reason != manager.SuccessfulMountVolume {
		return
	}
	name := e.Volume
	if e.Spec != nil && e.Spec.PersistentVolume != nil {
		name = e.Spec.PersistentVolume.Name
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.up[string(e.PodUID)+"/"+name] = true
}

// checkUnmount fails for a volume that is up in a pod that exists or has containers, and for a device
// mount of a volume that containers use. A set-up that fails unmounts a volume that was not up.
func (n *simNode) checkUnmount(target string) {
	if disk := n.attachable(target); disk != nil && slices.Contains(n.sim.mountPoints(), target) {
		n.checkInUse(disk, "is unmounted at "+target)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if rest, ok := strings.CutPrefix(target, n.root+"/pods/"); ok {
		uid, _, _ := strings.Cut(rest, "/")
		l := n.locals[types.UID(uid)]
		if l != nil && l.state == simRunning {
			n.sim.fail("%s is unmounted while containers of its pod run", target)
		} else if n.exists[types.UID(uid)] && n.up[uid+"/"+filepath.Base(target)] {
			n.sim.fail("%s is unmounted while its pod exists", target)
		}
		return
	}
	for _, l := range n.locals {
		for _, pin := range l.pins {
			if filepath.Base(pin.Name()) == filepath.Base(target) {
				n.sim.fail("%s is unmounted below %s", target, pin.Name())
			}
		}
	}
}

// A simProgram is one run of the program: a source, a manager, the writers of status, and an agent
// that starts containers.
type simProgram struct {
	node        *simNode
	cluster     api.Cluster
	source      *node.Source
	attachments *node.VolumeAttachments
	manager     *manager.Manager
	ctx         context.Context
	cancel      context.CancelFunc
	ended       sync.WaitGroup
}

// start starts the program, which has the records of the pods with containers.
func (n *simNode) start(cluster api.Cluster) {
	p := &simProgram{node: n, cluster: cluster}
	p.ctx, p.cancel = context.WithCancel(n.sim.ctx)
	var locals []*v1.Pod
	for _, l := range n.running() {
		locals = append(locals, l.pod)
	}
	n.mu.Lock()
	n.isDown = false
	if c, ok := cluster.(*apitest.Cluster); ok {
		n.ended = c.Crashed()
	}
	n.mu.Unlock()
	cluster = simCluster{cluster, n}
	var err error
	p.source, err = node.NewSource(node.Config{Cluster: cluster, Node: simNodeName, HasContainers: n.hasContainers, LocalPods: locals})
	n.sim.must(err)
	host, err := volume.NewHost(p.ctx, n.root, volume.WithNodeName(simNodeName))
	n.sim.must(err)
	kernel := simKernel{n.kernel, n}
	files := content.Config{Mounter: kernel, ConfigMaps: p.source, Secrets: p.source, Tokens: p.source}
	all := []volume.VolumePlugin{
		emptydir.New(emptydir.Config{Mounter: kernel}), content.NewConfigMap(files), content.NewSecret(files), content.NewProjected(files),
	}
	for _, driver := range simDrivers {
		all = append(all, simPlugin{n.drivers[driver], p, driver})
	}
	plugins, err := volume.NewVolumePluginMgr(p.ctx, host, all...)
	n.sim.must(err)
	watch := node.AttacherConfig{Source: p.source}
	if n.sim.seed%4 > 1 {
		watch = node.AttacherConfig{Cluster: cluster, Node: simNodeName}
	}
	attacher, err := node.NewAttacher(watch)
	n.sim.must(err)
	p.attachments, err = node.NewVolumeAttachments(node.VolumeAttachmentsConfig{Cluster: cluster, Node: simNodeName})
	n.sim.must(err)
	status, err := node.NewClaimStatus(node.ClaimStatusConfig{Source: p.source})
	n.sim.must(err)
	p.manager, err = manager.New(manager.Config{
		Plugins: plugins, Mounter: kernel, Pods: p.source, Claims: p.source, Refresh: simRefresh,
		Events: n.recordEvent, Attacher: attacher, ReportFirst: true,
		ControllerExpands: true, Expansions: status.Report,
	})
	n.sim.must(err)
	p.source.SubscribeContent(p.manager.MarkRemountRequired)
	p.ended.Go(func() { n.sim.must(attacher.Run(p.ctx, p.manager)) })
	p.ended.Go(func() { n.sim.must(p.attachments.Run(p.ctx)) })
	p.ended.Go(func() { n.sim.must(status.Run(p.ctx)) })
	p.ended.Go(func() { n.sim.must(p.source.Run(p.ctx)) })
	p.ended.Go(func() { _ = p.manager.Run(p.ctx) })
	p.ended.Go(p.startPods)
	n.program = p
}

// crash ends the program: its calls have no effect from now on, and its memory is lost.
func (n *simNode) crash() {
	p := n.program
	n.program = nil
	n.mu.Lock()
	n.isDown = true
	n.mu.Unlock()
	if c, ok := p.cluster.(*apitest.Cluster); ok {
		c.Crash()
	}
	p.cancel()
	p.ended.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid, l := range n.locals {
		if l.state == simAdmitted {
			delete(n.locals, uid)
		}
	}
}

// startPods starts the containers of each pod that the source returns, once its volumes are up.
func (p *simProgram) startPods() {
	for {
		pods, err := p.source.Pods(p.ctx)
		if err != nil {
			return
		}
		for _, pod := range pods {
			p.admit(pod)
		}
		select {
		case <-p.ctx.Done():
			return
		case <-p.source.Changed():
		}
	}
}

// admit makes HasContainers return true for a new pod, and starts the wait for its volumes if the
// source still has the pod.
func (p *simProgram) admit(pod *v1.Pod) {
	n := p.node
	ctx, cancel := context.WithCancel(p.ctx)
	n.mu.Lock()
	if n.locals[pod.UID] != nil || pod.DeletionTimestamp != nil {
		n.mu.Unlock()
		cancel()
		return
	}
	l := &simLocal{pod: pod, cancel: cancel, pins: map[string]*os.File{}}
	n.locals[pod.UID] = l
	n.mu.Unlock()
	if _, err := p.source.Pod(p.ctx, pod.UID); err != nil {
		cancel()
		n.mu.Lock()
		defer n.mu.Unlock()
		if l.state == simAdmitted {
			delete(n.locals, pod.UID)
		}
		return
	}
	p.ended.Go(func() {
		defer cancel()
		for p.manager.WaitForAttachAndMount(ctx, pod) == nil && !p.startContainers(l) {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	})
}

// startContainers opens the volumes of a pod, as the runtime does, and writes a file to its emptyDir.
// It returns false if a volume is no longer up: volumesAttached lacks it for some time.
func (p *simProgram) startContainers(l *simLocal) bool {
	n := p.node
	mounted := p.manager.GetMountedVolumesForPod(l.pod.UID)
	if len(mounted) < len(l.pod.Spec.Volumes) {
		return false
	}
	if !n.open(l, mounted) {
		return true
	}
	n.sim.log("  containers of %s run", l.pod.Name)
	pod := l.pod.DeepCopy()
	pod.Status.Phase = v1.PodRunning
	// A conflict: the test has finished or deleted the pod.
	_, _ = n.sim.cluster.Pods(simNamespace).UpdateStatus(p.ctx, pod, metav1.UpdateOptions{})
	return true
}

// open opens the volumes of a pod, and reports whether its containers run.
func (n *simNode) open(l *simLocal, mounted map[string]manager.MountedVolume) bool {
	if n.hasCrashed() {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.state != simAdmitted {
		return false
	}
	for _, v := range l.pod.Spec.Volumes {
		path := mounted[v.Name].Path
		dir, err := os.Open(path)
		if err != nil {
			n.sim.fail("volume %s of pod %s is said to be up at %q: %v", v.Name, l.pod.Name, path, err)
			continue
		}
		l.pins[v.Name] = dir
		if v.EmptyDir != nil {
			n.sim.must(os.WriteFile(filepath.Join(path, simData), []byte(l.pod.UID), 0o600))
		}
	}
	l.state = simRunning
	return true
}

// endContainers ends the containers of a pod, or prevents their start.
func (n *simNode) endContainers(uid types.UID) {
	n.mu.Lock()
	l := n.locals[uid]
	if l == nil {
		l = &simLocal{}
		n.locals[uid] = l
	}
	for _, pin := range l.pins {
		_ = pin.Close()
	}
	l.state, l.pins = simEnded, nil
	if l.cancel != nil {
		l.cancel()
	}
	n.mu.Unlock()
	if n.program != nil {
		n.program.source.ContainersEnded(uid)
	}
}
