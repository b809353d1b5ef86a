package sidecar

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/internal/tasks"
	"github.com/volumekit/volumekit/volume"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CapacityConfig configures the CSIStorageCapacity objects of a driver, by which the scheduler finds nodes with
// enough storage.
type CapacityConfig struct {
	// Namespace of the objects. Required.
	Namespace string
	// Owner is the owner of the objects, as the Deployment of the driver: they are deleted with it. Objects of an
	// earlier run receive it as one more owner. Nil: none.
	Owner *metav1.OwnerReference
	// PollInterval is the pause between two queries for a class and a topology. 0: 1 minute.
	PollInterval time.Duration
	// ForImmediateBinding includes classes that do not wait for the first consumer.
	ForImmediateBinding bool
}

const defaultPollInterval = time.Minute

// capacities keep the CSIStorageCapacity objects of a driver up to date. One goroutine queries the driver, one
// call at a time: new classes and topologies at once, and each other one once in each interval.
type capacities struct {
	driver  *Driver
	config  CapacityConfig
	classes *api.Cache[*storagev1.StorageClass]
	nodes   *driverNodes // nil: the driver has no topologies
	cache   *api.Cache[*storagev1.CSIStorageCapacity]
	objects *api.Objects[*storagev1.CSIStorageCapacity]
	failed  func(err error)

	changed chan struct{}        // capacity 1: classes or nodes have changed
	queried map[string]time.Time // by the key of an item: the begin of its last query
}

func newCapacities(d *Driver, cluster api.CSIStorageCapacitiesGetter, config CapacityConfig, cache api.CacheConfig) *capacities {
	cache.LabelSelector = capacityDriverLabel + "=" + d.name + "," + capacityManagerLabel + "=" + capacityManager
	c := &capacities{driver: d, config: config, changed: make(chan struct{}, 1), queried: map[string]time.Time{}}
	if c.config.PollInterval == 0 {
		c.config.PollInterval = defaultPollInterval
	}
	c.cache = api.NewCache(cluster.CSIStorageCapacities(config.Namespace), cache)
	c.objects = api.NewObjects(cluster.CSIStorageCapacities, c.cache)
	return c
}

// run works until ctx ends, and then returns nil.
func (c *capacities) run(ctx context.Context) error {
	err := tasks.RunAll(ctx, c.cache.Run, c.objects.Run, c.work)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// work waits for the caches, and then queries the driver.
func (c *capacities) work(ctx context.Context) error {
	stop, err := c.follow(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for {
		next, err := c.pass(ctx, time.Now())
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			c.failed(err)
		}
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-c.changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// follow subscribes to the caches once they have synced.
func (c *capacities) follow(ctx context.Context) (stop func(), err error) {
	waits := []func(context.Context) error{c.cache.WaitForSync, c.classes.WaitForSync}
	if c.nodes != nil {
		waits = append(waits, c.nodes.waitForSync)
	}
	for _, wait := range waits {
		if err := wait(ctx); err != nil {
			return nil, err
		}
	}
	var stops []func()
	stop = func() {
		for _, stop := range stops {
			stop()
		}
	}
	stops, err = c.subscribe()
	if err != nil {
		stop()
	}
	return stop, err
}

// subscribe reports the changes of classes, and of the topologies of nodes, to the worker. A change of an object
// by another program is repaired in the next interval.
func (c *capacities) subscribe() (stops []func(), err error) {
	_, stopClasses, err := c.classes.Subscribe(func(change api.Change[*storagev1.StorageClass]) { c.wake(change.Replay) })
	if err != nil {
		return nil, err
	}
	stops = append(stops, stopClasses)
	if c.nodes == nil {
		return stops, nil
	}
	stopNodes, err := c.nodes.follow(func() { c.wake(false) })
	return append(stops, stopNodes...), err
}

func (c *capacities) wake(isReplay bool) {
	if isReplay {
		return
	}
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// pass deletes obsolete objects, and updates those that are due. It returns the time until the next one is due.
func (c *capacities) pass(ctx context.Context, now time.Time) (next time.Duration, err error) {
	next = c.config.PollInterval
	terms := []term{{}}
	if c.nodes != nil {
		terms = termsOf(c.nodes.all(), nil)
	}
	items := capacityItems(c.driver.name, c.classes.List(), terms, c.config.ForImmediateBinding)
	objects, err := c.objects.List(ctx)
	if err != nil {
		return next, fmt.Errorf("list the storage capacities: %w", err)
	}
	plan := planCapacities(items, objects)
	for _, object := range plan.obsolete {
		if failure := c.objects.Delete(ctx, object, metav1.DeleteOptions{}); failure != nil && !apierrors.IsNotFound(failure) {
			err = errors.Join(err, fmt.Errorf("delete storage capacity %s: %w", object.Name, failure))
		}
	}
	c.forget(items)
	for _, item := range items {
		key := item.key()
		if wait := c.config.PollInterval - now.Sub(c.queried[key]); !c.queried[key].IsZero() && wait > 0 {
			next = min(next, wait)
			continue
		}
		c.queried[key] = now
		err = errors.Join(err, c.update(ctx, item, plan.objects[key]))
	}
	return next, err
}

// forget drops the times of items that exist no more.
func (c *capacities) forget(items []capacityItem) {
	queried := make(map[string]time.Time, len(items))
	for _, item := range items {
		if at, ok := c.queried[item.key()]; ok {
			queried[item.key()] = at
		}
	}
	c.queried = queried
}

// update queries the driver, and writes the object of an item if its numbers have changed, or if it lacks the owner.
func (c *capacities) update(ctx context.Context, item capacityItem, object *storagev1.CSIStorageCapacity) error {
	available, most, err := c.query(ctx, item)
	if err != nil {
		return fmt.Errorf("capacity of class %s: %w", item.class.Name, err)
	}
	switch {
	case object == nil:
		created := item.newCapacity(c.driver.name, c.config.Namespace, c.config.Owner)
		created.Capacity, created.MaximumVolumeSize = available, most
		_, err = c.objects.Create(ctx, created)
	case !isSameSize(object.Capacity, available) || !isSameSize(object.MaximumVolumeSize, most) || !c.isOwned(object):
		updated := object.DeepCopy()
		updated.Capacity, updated.MaximumVolumeSize = available, most
		if !c.isOwned(object) {
			updated.OwnerReferences = withOwner(updated.OwnerReferences, *c.config.Owner)
		}
		_, err = c.objects.Update(ctx, updated)
	}
	if err != nil {
		return fmt.Errorf("store the capacity of class %s: %w", item.class.Name, err)
	}
	return nil
}

// isOwned reports whether an object has the owner of the configuration.
func (c *capacities) isOwned(object *storagev1.CSIStorageCapacity) bool {
	return c.config.Owner == nil || slices.ContainsFunc(object.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.UID == c.config.Owner.UID
	})
}

// withOwner returns references with one more owner. An object has at most one controller: if the new owner is one, the
// other owners are none.
func withOwner(references []metav1.OwnerReference, owner metav1.OwnerReference) []metav1.OwnerReference {
	references = slices.Clone(references)
	if owner.Controller != nil && *owner.Controller {
		for i := range references {
			references[i].Controller = nil
		}
	}
	return append(references, owner)
}

// query calls GetCapacity.
func (c *capacities) query(ctx context.Context, item capacityItem) (available, most *resource.Quantity, err error) {
	parameters, err := parseParameters(item.class.Parameters)
	if err != nil {
		return nil, nil, err
	}
	call := &csipb.GetCapacityRequest{Parameters: parameters.driver}
	if len(item.at) > 0 {
		call.AccessibleTopology = &csipb.Topology{Segments: item.at.labels()}
	}
	answer, err := c.driver.controller.GetCapacity(ctx, call)
	if err != nil {
		return nil, nil, err
	}
	if answer.GetAvailableCapacity() < 0 || answer.GetMaximumVolumeSize().GetValue() < 0 {
		return nil, nil, volume.AsTransient(fmt.Errorf("driver %s reports a negative capacity", c.driver.name))
	}
	available = resource.NewQuantity(answer.GetAvailableCapacity(), resource.BinarySI)
	if answer.GetMaximumVolumeSize() != nil {
		most = resource.NewQuantity(answer.GetMaximumVolumeSize().GetValue(), resource.BinarySI)
	}
	return available, most, nil
}

// isSameSize compares two sizes, of which nil is an unknown one.
func isSameSize(a, b *resource.Quantity) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Cmp(*b) == 0
}
