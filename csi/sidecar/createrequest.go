package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/protobuf/proto"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A createRequest is a call of CreateVolume without its secrets, with further parts of the object of its volume.
type createRequest struct {
	call          *csipb.CreateVolumeRequest
	claim         types.UID
	parameters    classParameters
	usage         usage
	secrets       map[secretUse]*v1.SecretReference
	mayReschedule bool
	// mayExist: an earlier run may have created the volume, with arguments that are not known any more.
	mayExist bool
	refusal  error // why the claim cannot have the volume
}

// newRequest returns the request for a claim. For a volume that may exist, the call is made with the objects that are
// left, and a check that would prevent a first call refuses the volume after the call.
func (p *provisioner) newRequest(ctx context.Context, o provision.Options) (*createRequest, error) {
	r := &createRequest{call: &csipb.CreateVolumeRequest{Name: o.PVName}, claim: o.PVC.UID, mayExist: o.MayExist}
	for _, add := range []func(context.Context, *createRequest, provision.Options) error{
		p.checkSelector, p.addParameters, p.addSize, p.addUsage, p.addSource, p.addTopology, p.addMutableParameters, p.addSecrets,
	} {
		if err := r.refuse(add(ctx, r, o)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// refuse returns the error of a check, and records it instead if the volume may exist. A failed read is transient, and
// an error for each call; so is a volume of another program.
func (r *createRequest) refuse(err error) error {
	if !r.mayExist || volume.KindOf(err) != volume.Final || errors.As(err, new(*volume.IgnoredError)) {
		return err
	}
	r.refusal = cmp.Or(r.refusal, err)
	return nil
}

// with returns the call with secrets. The request keeps none.
func (r *createRequest) with(secrets map[string]string) *csipb.CreateVolumeRequest {
	call := &csipb.CreateVolumeRequest{}
	proto.Merge(call, r.call)
	call.Secrets = secrets
	return call
}

func (p *provisioner) checkSelector(_ context.Context, _ *createRequest, o provision.Options) error {
	if o.PVC.Spec.Selector == nil {
		return nil
	}
	return fmt.Errorf("a claim of driver %s must have no selector: %w", p.driver.name, volume.ErrInfeasible)
}

// addParameters adds the parameters of the class.
func (p *provisioner) addParameters(_ context.Context, r *createRequest, o provision.Options) (err error) {
	r.parameters, err = parseParameters(o.StorageClass.Parameters)
	r.call.Parameters = p.parametersFor(r.parameters, o)
	return infeasible(err)
}

// addSecrets adds the references to the Secrets.
func (p *provisioner) addSecrets(_ context.Context, r *createRequest, o provision.Options) (err error) {
	r.secrets, err = r.parameters.references(o.PVName, o.PVC)
	return infeasible(err)
}

// infeasible returns an error that wraps err and volume.ErrInfeasible. Nil stays nil.
func infeasible(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", err, volume.ErrInfeasible)
}

// parametersFor returns the parameters for the driver.
func (p *provisioner) parametersFor(parameters classParameters, o provision.Options) map[string]string {
	all := maps.Clone(parameters.driver)
	if p.config.ExtraCreateMetadata {
		all[claimNameKey], all[claimNamespaceKey], all[volumeNameKey] = o.PVC.Name, o.PVC.Namespace, o.PVName
	}
	return all
}

// addSize adds the size that the claim requests.
func (p *provisioner) addSize(_ context.Context, r *createRequest, o provision.Options) error {
	size := o.PVC.Spec.Resources.Requests[v1.ResourceStorage]
	bytes, err := quantity.Bytes(&size)
	if err == nil && bytes <= 0 {
		err = errors.New("must be more than 0")
	}
	if err != nil {
		return fmt.Errorf("requested size %s: %w: %w", quantity.Text(&size), err, volume.ErrInfeasible)
	}
	r.call.CapacityRange = &csipb.CapacityRange{RequiredBytes: bytes}
	return nil
}

// addUsage adds the volume capabilities.
func (p *provisioner) addUsage(_ context.Context, r *createRequest, o provision.Options) (err error) {
	fsType := cmp.Or(r.parameters.fsType, p.config.DefaultFSType)
	r.usage = usage{isBlock: isBlock(o.PVC.Spec.VolumeMode), fsType: fsType, flags: o.StorageClass.MountOptions}
	r.call.VolumeCapabilities, err = r.usage.capabilitiesFor(o.PVC.Spec.AccessModes, p.driver.capabilities)
	return infeasible(err)
}

// addTopology adds the topology requirement, for a driver that has topologies.
func (p *provisioner) addTopology(ctx context.Context, r *createRequest, o provision.Options) error {
	if p.nodes == nil {
		return nil
	}
	selected, err := p.nodes.selected(ctx, o.SelectedNode)
	if err != nil {
		return err
	}
	in := topologyInputs{
		claim: o.PVC.Name, allowed: o.StorageClass.AllowedTopologies, selected: selected,
		strict: p.config.StrictTopology, immediate: !p.config.WithoutImmediateTopology,
	}
	if selected == nil && in.immediate || selected != nil && !in.strict {
		in.nodes = p.nodes.all()
	}
	r.mayReschedule = selected != nil
	r.call.AccessibilityRequirements, err = requirementOf(in)
	if r.mayExist && errors.Is(err, volume.ErrReschedule) { // the topology of the node is not known any more
		in.selected, in.nodes = nil, p.nodes.all()
		r.call.AccessibilityRequirements, err = requirementOf(in)
	}
	return err
}

// addMutableParameters adds the parameters of the claim's attributes class. Package provision has checked
// that the class is one of the driver.
func (p *provisioner) addMutableParameters(_ context.Context, r *createRequest, o provision.Options) error {
	switch class := o.VolumeAttributesClass; {
	case class.Name == "":
		return nil
	case !p.driver.capabilities.modify:
		return fmt.Errorf("volume attributes class %q: the driver does not declare MODIFY_VOLUME: %w", class.Name, volume.ErrInfeasible)
	}
	r.call.MutableParameters = maps.Clone(o.VolumeAttributesClass.Parameters)
	return nil
}
