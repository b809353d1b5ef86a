package sidecar

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A capacityItem is a class and a topology for which the driver reports its capacity. An empty topology is
// that of all nodes.
type capacityItem struct {
	class *storagev1.StorageClass
	at    term
}

// key names an item. Labels of the items of one class with the same key are equal.
func (i capacityItem) key() string { return capacityKey(i.class.Name, i.at.labels()) }

func capacityKey(class string, labels map[string]string) string {
	return fmt.Sprintf("%q %q", class, newTerm(labels))
}

// objectName returns the name of an item's object. It is the same in each run, so that a creation whose outcome
// is unknown is not repeated under another name.
func (i capacityItem) objectName(driver string) string {
	return fmt.Sprintf("csisc-%x", sha256.Sum256(fmt.Appendf(nil, "%q %s", driver, i.key())))[:38]
}

// capacityItems returns the items of the classes of a driver, sorted by their keys. The scheduler reads
// capacities for classes that wait for the first consumer; others are included on request.
func capacityItems(driver string, classes []*storagev1.StorageClass, terms []term, withImmediate bool) (items []capacityItem) {
	for _, class := range classes {
		waits := class.VolumeBindingMode != nil && *class.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
		if class.Provisioner != driver || !waits && !withImmediate {
			continue
		}
		for _, t := range terms {
			items = append(items, capacityItem{class, t})
		}
	}
	slices.SortFunc(items, func(a, b capacityItem) int { return cmp.Compare(a.key(), b.key()) })
	return items
}

// A capacityPlan says what to do with the objects of a driver.
type capacityPlan struct {
	objects  map[string]*storagev1.CSIStorageCapacity // by the keys of their items
	obsolete []*storagev1.CSIStorageCapacity          // those of no item, and second ones of an item
}

// planCapacities assigns the objects of a driver to its items. Of two objects for one item the older one stays.
func planCapacities(items []capacityItem, objects []*storagev1.CSIStorageCapacity) capacityPlan {
	plan := capacityPlan{objects: map[string]*storagev1.CSIStorageCapacity{}}
	wanted := map[string]bool{}
	for _, item := range items {
		wanted[item.key()] = true
	}
	objects = slices.Clone(objects)
	slices.SortFunc(objects, func(a, b *storagev1.CSIStorageCapacity) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, object := range objects {
		key, ok := keyOfCapacity(object)
		if !ok || !wanted[key] || plan.objects[key] != nil {
			plan.obsolete = append(plan.obsolete, object)
			continue
		}
		plan.objects[key] = object
	}
	return plan
}

// keyOfCapacity returns the key of an object's item. ok is false for an object that can have no item.
func keyOfCapacity(object *storagev1.CSIStorageCapacity) (key string, ok bool) {
	if object.NodeTopology == nil || len(object.NodeTopology.MatchExpressions) > 0 {
		return "", false
	}
	return capacityKey(object.StorageClassName, object.NodeTopology.MatchLabels), true
}

// newCapacity returns the object of an item, without its numbers.
func (i capacityItem) newCapacity(driver, namespace string, owner *metav1.OwnerReference) *storagev1.CSIStorageCapacity {
	object := &storagev1.CSIStorageCapacity{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: i.objectName(driver),
			Labels: map[string]string{capacityDriverLabel: driver, capacityManagerLabel: capacityManager},
		},
		StorageClassName: i.class.Name,
		NodeTopology:     &metav1.LabelSelector{MatchLabels: i.at.labels()},
	}
	if owner != nil {
		object.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return object
}
