package recyclertest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/recycler"
)

// Config configures a cluster. The zero value works: pods succeed after a second, and no
// call fails.
type Config struct {
	// Fate returns the course of a new pod. Nil, or the zero Fate: it succeeds.
	Fate func(pod *v1.Pod) Fate
	// Fault returns the fault of a call. Nil, or the zero Fault: the call works. It may
	// call the cluster's methods that take no context.
	Fault func(ctx context.Context, call Call) Fault
	// Grace is the time from the deletion of a running pod to its end. 0: a second.
	Grace time.Duration
}

// A Cluster implements recycler.PodClient by a cluster in memory. [NewCluster] returns
// one. It is safe for concurrent use.
type Cluster struct {
	config Config

	mu      sync.Mutex // guards the fields below
	uids    int
	pods    map[types.NamespacedName]*pod
	volumes map[string]*files // by source
	watches map[*watch]struct{}
}

var _ recycler.PodClient = (*Cluster)(nil)

// NewCluster returns a cluster without pods, in which all volumes are empty.
func NewCluster(config Config) *Cluster {
	if config.Grace == 0 {
		config.Grace = time.Second
	}
	return &Cluster{
		config: config, pods: map[types.NamespacedName]*pod{},
		volumes: map[string]*files{}, watches: map[*watch]struct{}{},
	}
}

// files holds a volume's files, and the pods that have scrubbed it.
type files struct {
	names  []string
	scrubs []v1.Pod
}

func (c *Cluster) files(source v1.VolumeSource) *files {
	key, err := json.Marshal(source)
	if err != nil {
		panic(err) // the API types can be marshalled
	}
	if c.volumes[string(key)] == nil {
		c.volumes[string(key)] = &files{}
	}
	return c.volumes[string(key)]
}

// Fill adds files to a volume. Equal sources are the same volume.
func (c *Cluster) Fill(source v1.VolumeSource, names ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files(source)
	f.names = append(f.names, names...)
}

// Files returns the files of a volume.
func (c *Cluster) Files(source v1.VolumeSource) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.files(source).names)
}

// Scrubs returns the pods that have scrubbed a volume, in their order.
func (c *Cluster) Scrubs(source v1.VolumeSource) []v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.files(source).scrubs)
}

// Pods returns all pods, in no particular order.
func (c *Cluster) Pods() []v1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []v1.Pod
	for _, p := range c.pods {
		all = append(all, *p.now.DeepCopy())
	}
	return all
}

// Watches returns the number of open watches.
func (c *Cluster) Watches() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.watches)
}

// Create implements recycler.PodClient.
func (c *Cluster) Create(ctx context.Context, asked *v1.Pod) (created *v1.Pod, err error) {
	err = c.call(ctx, Call{Op: Create, Pod: asked.DeepCopy()}, func() (err error) {
		created, err = c.create(asked)
		return err
	})
	if err != nil {
		return nil, err
	}
	return created, nil
}

// Get implements recycler.PodClient.
func (c *Cluster) Get(ctx context.Context, namespace, name string) (found *v1.Pod, err error) {
	asked := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	err = c.call(ctx, Call{Op: Get, Pod: asked}, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		p, ok := c.pods[types.NamespacedName{Namespace: namespace, Name: name}]
		if !ok {
			return notFound(name)
		}
		found = p.now.DeepCopy()
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Delete implements recycler.PodClient.
func (c *Cluster) Delete(ctx context.Context, namespace, name string, uid types.UID) error {
	asked := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid}}
	return c.call(ctx, Call{Op: Delete, Pod: asked}, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		p, ok := c.pods[types.NamespacedName{Namespace: namespace, Name: name}]
		switch {
		case !ok:
			return notFound(name)
		case p.now.UID != uid:
			return apierrors.NewConflict(resource, name, fmt.Errorf("the UID is %s", p.now.UID))
		}
		c.delete(p)
		return nil
	})
}

// List implements recycler.PodClient.
func (c *Cluster) List(ctx context.Context, namespace string, labels map[string]string) (found []v1.Pod, err error) {
	asked := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: labels}}
	err = c.call(ctx, Call{Op: List, Pod: asked}, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, p := range c.pods {
			if p.now.Namespace == namespace && hasAll(p.now.Labels, labels) {
				found = append(found, *p.now.DeepCopy())
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func hasAll(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

var resource = schema.GroupResource{Resource: "pods"}

func notFound(name string) error { return apierrors.NewNotFound(resource, brief.Text(name)) }
