package populate

import (
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sizesOf returns the requested size of a volume that this node can grow, and the size in
// the claim's status; nil stands for an unknown size. The requested size is the larger of the volume's
// capacity and, unless a controller expands volumes, the claim's request.
func (p *Populator) sizesOf(plugin volume.VolumePlugin, spec *volume.Spec, claim *v1.PersistentVolumeClaim) (size, claimed *resource.Quantity, err error) {
	_, ok := volume.As[volume.NodeExpandableVolumePlugin](plugin)
	if !ok || spec.PersistentVolume == nil || spec.IsReadOnly() {
		return nil, nil, nil
	}
	if size, err = storageIn("the volume's capacity", spec.PersistentVolume.Spec.Capacity); err != nil || claim == nil {
		return size, nil, err
	}
	requested, err := storageIn("the claim's request", claim.Spec.Resources.Requests)
	if err != nil {
		return nil, nil, err
	}
	claimed, err = storageIn("the capacity in the claim's status", claim.Status.Capacity)
	if p.ControllerExpands {
		return size, claimed, err
	}
	return LargerSize(size, requested), claimed, err
}

// storageIn returns the amount of storage in a list; nil: none. The name is for the error of an
// invalid quantity.
func storageIn(name string, list v1.ResourceList) (*resource.Quantity, error) {
	size, ok := list[v1.ResourceStorage]
	if !ok {
		return nil, nil
	}
	return &size, quantity.CheckOf(name, &size)
}

// LargerSize returns the larger of two sizes; nil stands for an unknown size.
func LargerSize(a, b *resource.Quantity) *resource.Quantity {
	if a == nil || b != nil && a.Cmp(*b) < 0 {
		return b
	}
	return a
}
