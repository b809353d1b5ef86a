package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/node"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simController attaches the volumes of the pods of the API server, and detaches the others, as the
// controller of Kubernetes and the attachers of the drivers do. It detaches a volume in this order:
//
//  1. It waits until its cache of the node lacks the volume in volumesInUse; a stale cache may lack it
//     too early.
//  2. It removes the volume from volumesAttached.
//  3. It reads volumesInUse from the API server. If the volume is in use, it puts it back.
//  4. It deletes the VolumeAttachment, and the device disappears.
//
// It pauses between all steps. A device has another path after each attach. Before a volume is
// attached the VolumeAttachment may show an error, and volumesAttached may name the volume already, as
// after a restart of the controller.
type simController struct {
	sim   *simulation
	poked chan struct{} // of length 1
	calm  chan struct{} // closed: no more pauses and stale caches

	writing sync.Mutex // held during writes of volumesAttached; locked before mu

	mu       sync.Mutex                   // guards the rest
	wanted   map[string]bool              // volumes of pods of the API server
	busy     map[string]bool              // volumes with an operation
	tries    map[string]int               // numbers of the operations
	reported map[string]string            // volumesAttached: the device paths
	inUse    map[v1.UniqueVolumeName]bool // volumesInUse, in the cache
}

func newSimController(s *simulation) *simController {
	return &simController{
		sim: s, poked: make(chan struct{}, 1), calm: make(chan struct{}),
		wanted: map[string]bool{}, busy: map[string]bool{}, tries: map[string]int{}, reported: map[string]string{},
	}
}

// run attaches and detaches until ctx ends.
func (c *simController) run(ctx context.Context) {
	watch := api.NewObjectWatch(c.sim.cluster.Nodes(), api.ObjectWatchConfig[*v1.Node]{
		Key: api.Key{Name: simNodeName}, Changed: c.nodeChanged,
	})
	go func() { _ = watch.Run(ctx) }()
	for {
		c.start(ctx)
		select {
		case <-ctx.Done():
			return
		case <-c.poked:
		}
	}
}

func (c *simController) poke() {
	select {
	case c.poked <- struct{}{}:
	default:
	}
}

func (c *simController) nodeChanged(change api.Change[*v1.Node]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inUse = map[v1.UniqueVolumeName]bool{}
	for _, name := range change.New.Status.VolumesInUse {
		c.inUse[name] = true
	}
	c.poke()
}

// want sets the volumes that are to be attached.
func (c *simController) want(volumes map[string]bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !maps.Equal(volumes, c.wanted) {
		c.wanted = volumes
		c.poke()
	}
}

// start starts the operations of volumes that are not as wanted.
func (c *simController) start(ctx context.Context) {
	c.sim.node.storage.Lock()
	volumes := maps.Clone(c.sim.node.volumes)
	c.sim.node.storage.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(volumes)) {
		disk := volumes[name]
		if !disk.isAttachable() || c.busy[name] {
			continue
		}
		c.sim.node.storage.Lock()
		isAttached := disk.device != ""
		c.sim.node.storage.Unlock()
		if isAttached == c.wanted[name] {
			continue
		}
		c.tries[name]++
		hash := fnv.New64()
		_, _ = fmt.Fprint(hash, name, c.tries[name])
		op := simOperation{c, disk, c.tries[name], rand.New(rand.NewPCG(c.sim.seed, hash.Sum64()))}
		isStale := !c.isCalm() && op.IntN(4) == 0
		work := op.attach
		if isAttached {
			if c.inUse[disk.uniqueName()] && !isStale {
				continue
			}
			work = op.detach
		}
		c.busy[name] = true
		go func() {
			work(ctx)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.busy[name] = false
			c.poke()
		}()
	}
}

func (c *simController) isCalm() bool {
	select {
	case <-c.calm:
		return true
	default:
		return false
	}
}

// report sets the device path of a volume in volumesAttached, or removes the volume for nil.
func (c *simController) report(ctx context.Context, disk *simDisk, device *string) {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	if device == nil {
		delete(c.reported, disk.volume)
	} else {
		c.reported[disk.volume] = *device
	}
	reported := maps.Clone(c.reported)
	c.mu.Unlock()
	attached := []v1.AttachedVolume{}
	for _, name := range slices.Sorted(maps.Keys(reported)) {
		c.sim.node.storage.Lock()
		attached = append(attached, v1.AttachedVolume{Name: c.sim.node.diskOf(name).uniqueName(), DevicePath: reported[name]})
		c.sim.node.storage.Unlock()
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesAttached": attached}})
	c.sim.must(err)
	c.retry(ctx, func() error {
		_, err := c.sim.cluster.Nodes().Patch(ctx, simNodeName, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// retry repeats a call until it succeeds: a real API server may be down.
func (c *simController) retry(ctx context.Context, call func() error) {
	for call() != nil && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// A simOperation is an attach or a detach.
type simOperation struct {
	*simController
	disk *simDisk
	try  int
	*rand.Rand
}

// pause waits for up to ten minutes, mostly for less than two seconds.
func (o simOperation) pause(ctx context.Context) {
	var most time.Duration
	switch n := o.IntN(20); {
	case n < 10:
		return
	case n < 17:
		most = 2 * time.Second
	case n < 19:
		most = 30 * time.Second
	default:
		most = 10 * time.Minute
	}
	if o.sim.server == nil {
		most /= 1000
	}
	timer := time.NewTimer(time.Duration(o.Int64N(int64(most))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-o.calm:
	}
}

// attach attaches the volume and reports it.
func (o simOperation) attach(ctx context.Context) {
	device, isCSI, path := fmt.Sprintf("/dev/%s-%d", o.disk.volume, o.try), o.disk.driver == simShared, ""
	o.pause(ctx)
	if isCSI {
		o.createAttachment(ctx)
		if o.IntN(4) == 0 {
			o.report(ctx, o.disk, &path)
		}
		o.pause(ctx)
		if o.IntN(3) == 0 {
			o.setStatus(ctx, map[string]any{"attachError": storagev1.VolumeError{Time: metav1.Now(), Message: "busy"}})
			o.pause(ctx)
		}
	} else {
		path = device
	}
	o.sim.node.attach(o.disk.volume, device)
	if isCSI {
		o.setStatus(ctx, map[string]any{"attached": true, "attachError": nil, "attachmentMetadata": map[string]string{simDeviceKey: device}})
	}
	o.pause(ctx)
	o.report(ctx, o.disk, &path)
}

// detach detaches the volume unless it is in use.
func (o simOperation) detach(ctx context.Context) {
	o.pause(ctx)
	o.mu.Lock()
	path := o.reported[o.disk.volume]
	o.mu.Unlock()
	o.report(ctx, o.disk, nil)
	o.pause(ctx)
	var inUse []v1.UniqueVolumeName
	o.retry(ctx, func() error {
		stored, err := o.sim.cluster.Nodes().Get(ctx, simNodeName, metav1.GetOptions{})
		if err == nil {
			inUse = stored.Status.VolumesInUse
		}
		return err
	})
	if ctx.Err() != nil {
		return
	}
	if slices.Contains(inUse, o.disk.uniqueName()) {
		o.sim.log("  %s is in use and stays attached", o.disk.volume)
		o.report(ctx, o.disk, &path)
		return
	}
	o.pause(ctx)
	objects, name := o.sim.cluster.VolumeAttachments(), o.attachmentName()
	if o.disk.driver == simShared {
		o.retry(ctx, func() error { return ignoreNotFound(objects.Delete(ctx, name, metav1.DeleteOptions{})) })
		o.pause(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	o.sim.node.detach(o.disk.volume)
	if o.disk.driver == simShared {
		o.retry(ctx, func() error {
			_, err := objects.Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
			return ignoreNotFound(err)
		})
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (o simOperation) attachmentName() string {
	return node.VolumeAttachmentName(simShared, o.disk.source, simNodeName)
}

func (o simOperation) createAttachment(ctx context.Context) {
	object := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: o.attachmentName(), Finalizers: []string{"external-attacher/" + simShared}},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: simShared, NodeName: simNodeName, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &o.disk.volume},
		},
	}
	o.retry(ctx, func() error {
		_, err := o.sim.cluster.VolumeAttachments().Create(ctx, object, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	})
}

// setStatus changes the status of the VolumeAttachment.
func (o simOperation) setStatus(ctx context.Context, status map[string]any) {
	patch, err := json.Marshal(map[string]any{"status": status})
	o.sim.must(err)
	o.retry(ctx, func() error {
		_, err := o.sim.cluster.VolumeAttachments().Patch(ctx, o.attachmentName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		return err
	})
}

// calmDown ends the pauses, and stale caches.
func (c *simController) calmDown() {
	close(c.calm)
	c.poke()
}

// attachmentDifferences compares volumesInUse, the attached volumes and their VolumeAttachments with
// the volumes of pods.
func (s *simulation) attachmentDifferences(volumes map[string]bool) (all []string) {
	want := map[v1.UniqueVolumeName]bool{}
	for _, name := range slices.Sorted(maps.Keys(s.node.volumes)) {
		disk := s.node.storedDisk(name)
		if disk.isAttachable() && volumes[name] {
			want[disk.uniqueName()] = true
		} else if disk.device != "" {
			all = append(all, name+" is still attached")
		}
	}
	if got := s.volumesInUse(); !slices.Equal(got, slices.Sorted(maps.Keys(want))) {
		all = append(all, fmt.Sprintf("in use are %v, and not %v", got, want))
	}
	return all
}

// volumesInUse returns node.status.volumesInUse.
func (s *simulation) volumesInUse() []v1.UniqueVolumeName {
	stored, err := s.cluster.Nodes().Get(s.ctx, simNodeName, metav1.GetOptions{})
	if err != nil {
		s.must(err)
		return nil
	}
	return stored.Status.VolumesInUse
}
