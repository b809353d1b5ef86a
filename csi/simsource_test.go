package csi_test

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/manager"
)

// The claims of a simulation, which have the names of their volumes.
const (
	simOne    = "one"   // of the driver that stages
	simTwo    = "two"   // likewise, for several nodes
	simDevice = "block" // likewise, a block volume
	simOnePod = "alone" // likewise, for one pod at a time
	simPlain  = "plain" // of the driver that publishes
)

var simClaims = []string{simOne, simTwo, simDevice, simOnePod, simPlain}

// A simSource has the pods of the node, their claims and volumes.
type simSource struct {
	s       *simulation
	changed chan struct{}

	mu     sync.Mutex
	pods   map[types.UID]*v1.Pod
	sizes  map[string]int64 // of volumes, in GiB
	status map[string]int64 // of claims, in GiB
}

var _ manager.PodSource = (*simSource)(nil)

func newSimSource(s *simulation) *simSource {
	source := &simSource{s: s, changed: make(chan struct{}, 1), pods: map[types.UID]*v1.Pod{}, sizes: map[string]int64{}, status: map[string]int64{}}
	for _, name := range simClaims {
		source.sizes[name], source.status[name] = 1, 1
	}
	return source
}

func (c *simSource) notify() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// change changes the source, and reports the change.
func (c *simSource) change(change func()) {
	c.mu.Lock()
	change()
	c.mu.Unlock()
	c.notify()
}

func (c *simSource) clear() { c.change(func() { clear(c.pods) }) }

func (c *simSource) all() []*v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.SortedFunc(maps.Values(c.pods), func(a, b *v1.Pod) int { return strings.Compare(string(a.UID), string(b.UID)) })
}

// Pods implements manager.PodSource.
func (c *simSource) Pods(context.Context) ([]*v1.Pod, error) { return c.all(), nil }

// Changed implements manager.PodSource.
func (c *simSource) Changed() <-chan struct{} { return c.changed }

func gibibytes(n int64) v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(n<<30, resource.BinarySI)}
}

func simVolumeMode(name string) *v1.PersistentVolumeMode {
	mode := v1.PersistentVolumeFilesystem
	if name == simDevice {
		mode = v1.PersistentVolumeBlock
	}
	return &mode
}

// GetPersistentVolumeClaim implements volume.ClaimReader.
func (c *simSource) GetPersistentVolumeClaim(_ context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sizes[name] == 0 {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "persistentvolumeclaims"}, name)
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
	claim.Spec.VolumeName, claim.Spec.VolumeMode = name, simVolumeMode(name)
	claim.Status.Phase, claim.Status.Capacity = v1.ClaimBound, gibibytes(c.status[name])
	return claim, nil
}

// GetPersistentVolume implements volume.ClaimReader.
func (c *simSource) GetPersistentVolume(_ context.Context, name string) (*v1.PersistentVolume, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("pv-" + name)}}
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: simStager, VolumeHandle: c.handle(name), VolumeAttributes: map[string]string{"share": name}}
	pv.Spec.Capacity, pv.Spec.VolumeMode = gibibytes(c.sizes[name]), simVolumeMode(name)
	pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: "space", Name: name, UID: types.UID(name)}
	pv.Status.Phase = v1.VolumeBound
	switch name {
	case simTwo:
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}
	case simOnePod:
		pv.Spec.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	case simPlain:
		pv.Spec.CSI.Driver = simPublisher
	}
	return pv, nil
}

// handle returns the handle of a volume. Each simulation has its own: the manager has locks of the
// process, by the name of the attachment, and a lock must not be shared by bubbles.
func (c *simSource) handle(name string) string { return name + "-" + filepath.Base(c.s.root) }

// recordExpansion writes the size of a volume that has grown into the status of its claim.
func (c *simSource) recordExpansion(e manager.Expansion) {
	c.s.log("  expansion of %s to %v: %v", e.Claim.Name, &e.NewSize, e.Err)
	if e.Err == nil {
		c.change(func() { c.status[e.Claim.Name] = e.NewSize.Value() >> 30 })
	}
}
