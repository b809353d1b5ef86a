package sidecar

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A ProvisionerCluster has the clients that a Provisioner uses. An [api.Cluster] is one.
type ProvisionerCluster interface {
	api.SecretsGetter
	api.PersistentVolumeClaimsGetter
	api.PersistentVolumesGetter
	api.StorageClassesGetter
	api.CSINodesGetter
}

// ProvisionConfig are the choices for new volumes. The zero value selects the defaults.
type ProvisionConfig struct {
	// DefaultFSType is the file system of volumes whose class has none. "": the driver chooses.
	DefaultFSType string
	// ExtraCreateMetadata passes the names of claim and volume to the driver, in the parameters of
	// CreateVolume.
	ExtraCreateMetadata bool
	// VolumeNamePrefix begins the names of volumes, before the UID of the claim. "": pvc.
	VolumeNamePrefix string
	// VolumeNameUUIDLength is the number of digits of the UID in the names of volumes. Claims whose UIDs
	// begin with the same digits have the same volume name, so that only one of them is provisioned. It must
	// not change while claims wait for volumes. 0: the whole UID.
	VolumeNameUUIDLength int

	// WithoutTopology ignores the topologies of a driver that has them.
	WithoutTopology bool
	// StrictTopology passes the topology of the selected node alone to the driver.
	StrictTopology bool
	// WithoutImmediateTopology passes no topology to the driver for a claim without a selected node whose
	// class allows any topology.
	WithoutImmediateTopology bool
	// UnguardedClaims omits a finalizer on the claim while its volume is created: a claim then costs one call to
	// the API server, the creation of the volume, instead of three. A volume is lost if its claim is deleted during
	// the CreateVolume and the program ends before that returns, as with external-provisioner.
	UnguardedClaims bool
	// ReadOnlyVolumes makes a volume read-only if the only access mode of its claim is ReadOnlyMany. A copy with this
	// mode is read-only without it.
	ReadOnlyVolumes bool
}

// ProvisionerConfig configures [NewProvisioner]. Cluster is required.
type ProvisionerConfig struct {
	Cluster ProvisionerCluster
	// Provision are the choices for new volumes. The names of volumes are those of the provision.Controller.
	Provision ProvisionConfig
	// CSINodes and Nodes are caches of the embedder, which runs them. They must have synced before the first
	// call. They are required if the driver has topologies, and not used otherwise.
	CSINodes *api.Cache[*storagev1.CSINode]
	Nodes    *api.Cache[*v1.Node]
}

// NewProvisioner returns the [provision.Provisioner] of a driver, for a [provision.Controller] whose Name is
// that of the driver. It is a [volume.BlockProvisioner] and a [volume.SourceProvisioner].
//
// The error wraps [volume.ErrNotSupported] if the driver does not declare CREATE_DELETE_VOLUME.
//
// Each error before CreateVolume is called wraps volume.ErrTransient: it does not say whether an earlier call
// has created the volume.
func NewProvisioner(d *Driver, config ProvisionerConfig) (provision.Provisioner, error) {
	p := &provisioner{driver: d, cluster: config.Cluster, config: config.Provision}
	switch {
	case !d.capabilities.create:
		return nil, fmt.Errorf("sidecar: driver %s does not declare CREATE_DELETE_VOLUME: %w", d.name, volume.ErrNotSupported)
	case config.Cluster == nil:
		return nil, fmt.Errorf("sidecar: %w", field.Required(field.NewPath("ProvisionerConfig", "Cluster"), "has the Secrets"))
	case !d.capabilities.topology || config.Provision.WithoutTopology:
		return p, nil
	case config.CSINodes == nil || config.Nodes == nil:
		return nil, fmt.Errorf("sidecar: %w", field.Required(field.NewPath("ProvisionerConfig", "CSINodes"), "the driver has topologies"))
	}
	p.nodes = &driverNodes{d.name, config.Cluster, config.CSINodes, config.Nodes}
	return p, nil
}

var (
	_ volume.BlockProvisioner  = (*provisioner)(nil)
	_ volume.SourceProvisioner = (*provisioner)(nil)
)

// A provisioner provisions by a driver.
type provisioner struct {
	driver  *Driver
	cluster ProvisionerCluster
	config  ProvisionConfig
	nodes   *driverNodes // nil: without topology
	open    openRequests
}

// SupportsBlock implements [volume.BlockProvisioner]: the driver refuses block volumes that it does not have.
func (p *provisioner) SupportsBlock(context.Context) bool { return true }

// SupportsSource implements [volume.SourceProvisioner]: Provision copies volumes, and refuses snapshots.
func (p *provisioner) SupportsSource(_ context.Context, kind schema.GroupKind) bool {
	return !(dataSource{group: kind.Group, kind: kind.Kind}).isForeign()
}

// Provision implements [provision.Provisioner] by CreateVolume. While the outcome of a call is open, it repeats the
// call with equal arguments, also if the cluster has changed; the Secret alone is read again.
func (p *provisioner) Provision(ctx context.Context, o provision.Options) (_ *v1.PersistentVolume, err error) {
	defer brief.Shorten(&err)
	r, isOpen := p.open.of(o)
	if !isOpen {
		if r, err = p.newRequest(ctx, o); err != nil {
			return nil, beforeCall(err)
		}
	}
	secrets, err := p.secretsOfCreation(ctx, r.secrets[forProvisioner], isOpen || r.mayExist)
	if err != nil {
		return nil, beforeCall(err)
	}
	created, err := p.create(ctx, r, secrets.data)
	p.open.record(r, err)
	if err != nil {
		return nil, err
	}
	pv := p.describe(r, o, created)
	if refusal := cmp.Or(r.refusal, secrets.missing, r.checkVolume(created)); refusal != nil {
		return pv, &provision.RefusalError{Err: refusal}
	}
	return pv, nil
}

// create calls CreateVolume.
func (p *provisioner) create(ctx context.Context, r *createRequest, secrets map[string]string) (*csipb.Volume, error) {
	answer, err := p.driver.controller.CreateVolume(ctx, r.with(secrets))
	if err != nil {
		return nil, createError(err, r.mayReschedule)
	}
	if answer.GetVolume().GetVolumeId() == "" {
		return nil, volume.AsUncertain(fmt.Errorf("driver %s has created a volume without an ID", p.driver.name))
	}
	return answer.GetVolume(), nil
}

// beforeCall returns an error of a step before the call. The storage of an earlier run may exist, so that the
// error is transient, unless another program is responsible.
func beforeCall(err error) error {
	if errors.As(err, new(*volume.IgnoredError)) {
		return err
	}
	return volume.AsTransient(err)
}

// Delete implements [provision.Provisioner] by DeleteVolume.
func (p *provisioner) Delete(ctx context.Context, pv *v1.PersistentVolume) (err error) {
	defer brief.Shorten(&err)
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != p.driver.name {
		return &volume.IgnoredError{Reason: "not a volume of driver " + p.driver.name}
	}
	ref, err := p.deletionSecret(ctx, pv)
	if err != nil {
		return volume.AsTransient(err)
	}
	secrets, err := p.secretsForDeletion(ctx, ref)
	if err != nil {
		return err
	}
	_, err = p.driver.controller.DeleteVolume(ctx, &csipb.DeleteVolumeRequest{VolumeId: pv.Spec.CSI.VolumeHandle, Secrets: secrets})
	if err == nil {
		p.open.forget(pv.Name)
	}
	if codeOf(err) == inUse && volume.KindOf(err) == volume.Final {
		err = volume.AsTransient(err)
	}
	return err
}
