package provision

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/controllers/internal/storageclass"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// optionsFor returns the options of the next call of Provision for a claim. While storage is possible
// they equal those of the last call in this run, apart from MayExist. After a restart the storage must be found by any
// options: refusal is then the reason why it is to be discarded, and err is the same reason for a
// claim without storage. err is also a failed read.
func (c *Controller) optionsFor(ctx context.Context, v claimView) (options Options, refusal, err error) {
	a := v.attempt
	if v.isNameTaken() { // the storage of this name is described by a volume
		return options, nil, nameTaken(v.volume.Name)
	}
	if a.options != nil {
		options = *a.options
		options.MayExist = true
		return options, a.optionsRefusal, nil
	}
	options = Options{
		PVName: c.config.VolumeName(a.claim), PVC: a.claim.DeepCopy(), MayExist: a.storage == storagePossible || v.isStored(),
	}
	if v.class == nil {
		name, _ := storageclass.Named(a.claim)
		return options, nil, volume.AsTransient(fmt.Errorf("storage class %q does not exist", name))
	}
	options.StorageClass = *v.class.DeepCopy()
	refusal = cmp.Or(c.checkClaim(a.claim), c.checkSource(ctx, a.claim))
	if refusal != nil && !options.MayExist { // the claim does not change: it costs no reads
		return options, nil, refusal
	}
	missing, err := c.readOptions(ctx, v, &options)
	if err != nil {
		return options, nil, err
	}
	if refusal = cmp.Or(refusal, missing); refusal == nil {
		refusal = c.checkOptions(ctx, options)
	}
	if v.isStored() { // the checks are those of new storage
		return options, nil, nil
	}
	if a.storage == storagePossible && !c.mayHaveData(a.claim) {
		return options, refusal, nil
	}
	return options, nil, refusal
}

// readOptions sets the node and the attributes class of options. missing is the reason for which one of
// them does not exist.
func (c *Controller) readOptions(ctx context.Context, v claimView, o *Options) (missing, err error) {
	if checked := v.attempt.checked; checked != nil && checked.inputs == v.inputs() {
		o.SelectedNode, o.VolumeAttributesClass = checked.node, checked.attributes
		return nil, nil
	}
	var noNode, noAttributes error
	if o.SelectedNode, noNode, err = c.readNode(ctx, v.attempt.claim, v.class); err != nil {
		return nil, err
	}
	o.VolumeAttributesClass, noAttributes, err = c.readAttributes(ctx, v.attempt.claim)
	return cmp.Or(noNode, noAttributes), err
}

func nameTaken(volume string) error {
	return fmt.Errorf("persistent volume %q %w", volume, errNameTaken)
}

var errNameTaken = errors.New("belongs to another claim")

// mayHaveData reports whether the storage of a claim may have data, and is not discarded: the claim was bound, and not to
// another volume.
func (c *Controller) mayHaveData(claim *v1.PersistentVolumeClaim) bool {
	name := claim.Spec.VolumeName
	return (claim.Status.Phase == v1.ClaimBound || claim.Status.Phase == v1.ClaimLost) && (name == "" || name == c.config.VolumeName(claim))
}

// checkClaim returns an error for a claim for which no run of the controller calls Provision: the
// fields do not change before the claim is bound.
func (c *Controller) checkClaim(claim *v1.PersistentVolumeClaim) error {
	name := c.config.VolumeName(claim)
	if problems := input.Problems(validation.IsDNS1123Subdomain, name); len(problems) > 0 {
		return fmt.Errorf("volume name %.128q: %s: %w", name, problems[0], volume.ErrInfeasible)
	}
	if err := checkAttributesName(claim); err != nil {
		return err
	}
	return checkRequest(claim)
}

// checkAttributesName returns an error for an attributes class whose name is none.
func checkAttributesName(claim *v1.PersistentVolumeClaim) error {
	name := claim.Spec.VolumeAttributesClassName
	if name == nil || *name == "" {
		return nil
	}
	if problems := input.Problems(validation.IsDNS1123Subdomain, *name); len(problems) > 0 {
		return invalid(field.NewPath("spec", "volumeAttributesClassName"), *name, problems[0], volume.ErrInfeasible)
	}
	return nil
}

// checkOptions returns an error for a request that the Provisioner or the class does not allow.
func (c *Controller) checkOptions(ctx context.Context, o Options) error {
	if err := checkNode(o); err != nil {
		return err
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
	return c.checkMountOptions(o)
}

// checkNode returns an error for a node that the class does not allow, and for a class that waits for a
// consumer without a selected node.
func checkNode(o Options) error {
	switch class, node := &o.StorageClass, o.SelectedNode; {
	case node == nil && storageclass.WaitsForConsumer(class):
		return fmt.Errorf("storage class %q waits for a consumer, and no node is selected", class.Name)
	case node != nil && !storageclass.IsAllowed(class, node):
		return fmt.Errorf("storage class %q does not allow node %q: %w", class.Name, node.Name, volume.ErrReschedule)
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
// classes. A missing node is a node with a name alone, and a refusal that wraps volume.ErrReschedule.
func (c *Controller) readNode(ctx context.Context, claim *v1.PersistentVolumeClaim, class *storagev1.StorageClass) (node *v1.Node, refusal, err error) {
	name := selectedNode(claim)
	if name == "" || !storageclass.WaitsForConsumer(class) {
		return nil, nil, nil
	}
	return c.readNamedNode(ctx, name)
}

// readNamedNode is readNode for a node of any name.
func (c *Controller) readNamedNode(ctx context.Context, name string) (node *v1.Node, refusal, err error) {
	node = &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if problems := input.Problems(validation.IsDNS1123Subdomain, name); len(problems) > 0 {
		path := field.NewPath("metadata", "annotations").Key(SelectedNodeAnnotation)
		return node, invalid(path, name, problems[0], volume.ErrReschedule), nil
	}
	live, err := c.config.Cluster.Nodes().Get(ctx, name, metav1.GetOptions{})
	switch {
	case err == nil:
		return live.DeepCopy(), nil, nil
	case apierrors.IsNotFound(err):
		return node, fmt.Errorf("node %q does not exist: %w", name, volume.ErrReschedule), nil
	}
	return nil, nil, volume.AsTransient(fmt.Errorf("read node %q: %w", name, err))
}

// readAttributes returns the attributes class of a claim, or the zero value. A missing class is a class
// with a name alone, and a refusal.
func (c *Controller) readAttributes(ctx context.Context, claim *v1.PersistentVolumeClaim) (attributes volume.VolumeAttributesClass, refusal, err error) {
	if claim.Spec.VolumeAttributesClassName == nil || *claim.Spec.VolumeAttributesClassName == "" {
		return attributes, nil, nil
	}
	attributes.Name = *claim.Spec.VolumeAttributesClassName
	if refusal = checkAttributesName(claim); refusal != nil {
		return attributes, refusal, nil
	}
	class, err := c.config.Cluster.VolumeAttributesClasses().Get(ctx, attributes.Name, metav1.GetOptions{})
	if err == nil {
		attributes.DriverName, attributes.Parameters = class.DriverName, class.DeepCopy().Parameters
		return attributes, nil, nil
	}
	err = volume.AsTransient(fmt.Errorf("read volume attributes class %q: %w", attributes.Name, err))
	if apierrors.IsNotFound(err) {
		return attributes, err, nil
	}
	return attributes, nil, err
}
