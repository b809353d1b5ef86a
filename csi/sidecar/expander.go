package sidecar

import (
	"context"
	"errors"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/expand"
	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// NewExpander returns the [expand.Expander] of a driver. For a driver that expands on nodes alone it makes no
// calls. defaultFSType is the file system of volumes that name none; "": the driver chooses.
//
// The error wraps [volume.ErrNotSupported] if the driver declares EXPAND_VOLUME neither for its controller
// service nor for its node service.
func NewExpander(d *Driver, secrets api.SecretsGetter, defaultFSType string) (expand.Expander, error) {
	if !d.capabilities.expand && !d.capabilities.nodeExpand {
		return nil, fmt.Errorf("sidecar: driver %s does not declare EXPAND_VOLUME: %w", d.name, volume.ErrNotSupported)
	}
	return &expander{driver: d, secrets: secrets, defaultFSType: defaultFSType}, nil
}

// An expander expands by a driver.
type expander struct {
	driver        *Driver
	secrets       api.SecretsGetter
	defaultFSType string
}

// Name implements [expand.Expander].
func (e *expander) Name(pv *v1.PersistentVolume) string {
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != e.driver.name {
		return ""
	}
	return e.driver.name
}

// Expand implements [expand.Expander] by ControllerExpandVolume.
func (e *expander) Expand(ctx context.Context, req volume.ExpandRequest) (_ volume.ExpandResult, err error) {
	defer brief.Shorten(&err)
	if !e.driver.capabilities.expand {
		return volume.ExpandResult{Size: req.NewSize, NodeExpansionRequired: true}, nil
	}
	bytes, err := quantity.Bytes(&req.NewSize)
	if err == nil && bytes <= 0 {
		err = errors.New("must be more than 0")
	}
	if err != nil {
		return volume.ExpandResult{}, fmt.Errorf("size %s: %w: %w", quantity.Text(&req.NewSize), err, volume.ErrInfeasible)
	}
	pv := req.Spec.PersistentVolume
	capability, err := capabilityOf(pv, e.defaultFSType, e.driver.capabilities)
	if err != nil {
		return volume.ExpandResult{}, volume.AsTransient(err)
	}
	secrets, err := secretsOf(ctx, e.secrets, pv.Spec.CSI.ControllerExpandSecretRef)
	if err != nil {
		return volume.ExpandResult{}, err
	}
	answer, err := e.driver.controller.ControllerExpandVolume(ctx, &csipb.ControllerExpandVolumeRequest{
		VolumeId: pv.Spec.CSI.VolumeHandle, CapacityRange: &csipb.CapacityRange{RequiredBytes: bytes},
		Secrets: secrets, VolumeCapability: capability,
	})
	if err != nil {
		return volume.ExpandResult{}, connection.ExpansionError(err)
	}
	return volume.ExpandResult{
		Size: *resource.NewQuantity(answer.GetCapacityBytes(), resource.BinarySI), NodeExpansionRequired: answer.GetNodeExpansionRequired(),
	}, nil
}
