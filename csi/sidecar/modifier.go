package sidecar

import (
	"context"
	"fmt"
	"maps"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/modify"
	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// NewModifier returns the [modify.Modifier] of a driver. With extraMetadata the driver receives the names of
// claim and volume among the parameters.
//
// The error wraps [volume.ErrNotSupported] if the driver does not declare MODIFY_VOLUME.
func NewModifier(d *Driver, secrets api.SecretsGetter, extraMetadata bool) (modify.Modifier, error) {
	if !d.capabilities.modify {
		return nil, fmt.Errorf("sidecar: driver %s does not declare MODIFY_VOLUME: %w", d.name, volume.ErrNotSupported)
	}
	return &modifier{driver: d, secrets: secrets, extraMetadata: extraMetadata}, nil
}

// A modifier changes attributes by a driver.
type modifier struct {
	driver        *Driver
	secrets       api.SecretsGetter
	extraMetadata bool
}

// Name implements [modify.Modifier].
func (m *modifier) Name(pv *v1.PersistentVolume) string {
	if pv.Spec.CSI == nil || pv.Spec.CSI.Driver != m.driver.name {
		return ""
	}
	return m.driver.name
}

// Modify implements [modify.Modifier] by ControllerModifyVolume.
func (m *modifier) Modify(ctx context.Context, req modify.Request) (err error) {
	defer brief.Shorten(&err)
	parameters := maps.Clone(req.Parameters)
	if m.extraMetadata {
		if parameters == nil {
			parameters = map[string]string{}
		}
		parameters[claimNameKey], parameters[claimNamespaceKey], parameters[volumeNameKey] = req.Claim.Name, req.Claim.Namespace, req.Volume.Name
	}
	secrets, err := secretsOf(ctx, m.secrets, modifySecret(req.Volume))
	if err != nil {
		return err
	}
	_, err = m.driver.controller.ControllerModifyVolume(ctx, &csipb.ControllerModifyVolumeRequest{
		VolumeId: req.Volume.Spec.CSI.VolumeHandle, MutableParameters: parameters, Secrets: secrets,
	})
	return connection.ModificationError(err)
}

// modifySecret returns the Secret of ControllerModifyVolume: that of the annotations, or for a volume without them
// that of ControllerExpandVolume.
func modifySecret(pv *v1.PersistentVolume) *v1.SecretReference {
	name, namespace := pv.Annotations[modifySecretNameAnnotation], pv.Annotations[modifySecretNamespaceAnnotation]
	if name == "" || namespace == "" {
		return pv.Spec.CSI.ControllerExpandSecretRef
	}
	return &v1.SecretReference{Name: name, Namespace: namespace}
}
