package provision

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// optionsFor returns the options of the next call of Provision for a claim. While storage is possible
// they equal those of the last call in this run; after a restart a missing node or attributes class
// is replaced by its name, because the storage must be found all the same.
func (c *Controller) optionsFor(ctx context.Context, v claimView) (Options, error) {
	a := v.attempt
	if a.options != nil {
		return *a.options, nil
	}
	options := Options{PVName: c.config.VolumeName(a.claim), PVC: a.claim.DeepCopy()}
	if v.class == nil {
		name, _ := namedClass(a.claim)
		return options, volume.AsTransient(fmt.Errorf("storage class %q does not exist", name))
	}
	options.StorageClass = *v.class.DeepCopy()
	mustFind := a.storage == storagePossible
	var err error
	if options.SelectedNode, err = c.readNode(ctx, a.claim, v.class, mustFind); err != nil {
		return options, err
	}
	if options.VolumeAttributesClass, err = c.readAttributes(ctx, a.claim, mustFind); err != nil || mustFind {
		return options, err
	}
	return options, c.checkOptions(ctx, v, options)
}

// checkOptions returns an error for a request that no call of Provision can fulfil.
func (c *Controller) checkOptions(ctx context.Context, v claimView, o Options) error {
	if problems := validation.NameIsDNSSubdomain(o.PVName, false); len(problems) > 0 {
		return fmt.Errorf("volume name %.128q: %s: %w", o.PVName, problems[0], volume.ErrInfeasible)
	}
	if err := checkRequest(o.PVC); err != nil {
		return err
	}
	if v.isNameTaken() {
		return fmt.Errorf("persistent volume %q belongs to another claim", o.PVName)
	}
	if node := o.SelectedNode; node != nil && !isAllowed(v.class, node) {
		return fmt.Errorf("storage class %q does not allow node %q: %w", v.class.Name, node.Name, volume.ErrReschedule)
	}
	if name := o.VolumeAttributesClass.DriverName; name != "" && !c.rules.has(name) {
		return fmt.Errorf("volume attributes class %q is of driver %q: %w", o.VolumeAttributesClass.Name, name, volume.ErrInfeasible)
	}
	if mode := o.PVC.Spec.VolumeMode; mode != nil && *mode == v1.PersistentVolumeBlock {
		blocks, ok := c.config.Provisioner.(volume.BlockProvisioner)
		if !ok || !blocks.SupportsBlock(ctx) {
			return fmt.Errorf("%s does not provision raw block devices: %w", c.config.Name, volume.ErrInfeasible)
		}
	}
	return nil
}

// checkRequest returns an error for a claim without a size, and for one whose size no storage has.
func checkRequest(claim *v1.PersistentVolumeClaim) error {
	path := field.NewPath("spec", "resources", "requests").Key(string(v1.ResourceStorage))
	size, ok := claim.Spec.Resources.Requests[v1.ResourceStorage]
	if !ok {
		return fmt.Errorf("%w: %w", field.Required(path, "the size of the volume"), volume.ErrInfeasible)
	}
	if err := quantity.Check(&size); err != nil {
		return invalid(path, quantity.Text(&size), err.Error(), volume.ErrInfeasible)
	}
	if size.Sign() <= 0 {
		return invalid(path, size.String(), "must be greater than zero", volume.ErrInfeasible)
	}
	return nil
}

// invalid returns the error for a field of an object, with the beginning of the field's value. It wraps
// kind.
func invalid(path *field.Path, value, problem string, kind error) error {
	return fmt.Errorf("%w: %w", field.Invalid(path, brief.Name(value), problem), kind)
}

// readNode returns the selected node of a claim whose class waits for a consumer, and nil for other
// classes. A missing node is an error that wraps volume.ErrReschedule, or with mustFind a node with a
// name alone.
func (c *Controller) readNode(ctx context.Context, claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass, mustFind bool) (*v1.Node, error) {
	name := selectedNode(claim)
	if name == "" || !waitsForConsumer(class) {
		return nil, nil
	}
	if problems := validation.NameIsDNSSubdomain(name, false); len(problems) > 0 && !mustFind {
		path := field.NewPath("metadata", "annotations").Key(SelectedNodeAnnotation)
		return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, invalid(path, name, problems[0], volume.ErrReschedule)
	}
	node, err := c.config.Cluster.Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return node.DeepCopy(), nil
	case !apierrors.IsNotFound(err):
		return nil, volume.AsTransient(fmt.Errorf("read node %q: %w", name, err))
	}
	node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if mustFind {
		return node, nil
	}
	return node, fmt.Errorf("node %q does not exist: %w", name, volume.ErrReschedule)
}

// readAttributes returns the attributes class of a claim, or the zero value. A missing class is an
// error, or with mustFind a class with a name alone.
func (c *Controller) readAttributes(ctx context.Context, claim *v1.PersistentVolumeClaim, mustFind bool) (volume.VolumeAttributesClass, error) {
	if claim.Spec.VolumeAttributesClassName == nil || *claim.Spec.VolumeAttributesClassName == "" {
		return volume.VolumeAttributesClass{}, nil
	}
	attributes := volume.VolumeAttributesClass{Name: *claim.Spec.VolumeAttributesClassName}
	if problems := validation.NameIsDNSSubdomain(attributes.Name, false); len(problems) > 0 && !mustFind {
		return attributes, invalid(field.NewPath("spec", "volumeAttributesClassName"), attributes.Name, problems[0], volume.ErrInfeasible)
	}
	class, err := c.config.Cluster.VolumeAttributesClasses().Get(ctx, attributes.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		attributes.DriverName, attributes.Parameters = class.DriverName, class.DeepCopy().Parameters
		return attributes, nil
	case apierrors.IsNotFound(err) && mustFind:
		return attributes, nil
	}
	return attributes, volume.AsTransient(fmt.Errorf("read volume attributes class %q: %w", attributes.Name, err))
}
