package sidecar

import (
	"context"
	"errors"
	"fmt"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// NewAttacher returns the [attachment.Attacher] of a driver, an [attachment.Checker] as well. It is an
// [attachment.Lister] if the driver declares LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES. defaultFSType is the file system of volumes that
// name none; "": the driver chooses.
//
// The error wraps [volume.ErrNotSupported] if the driver does not declare PUBLISH_UNPUBLISH_VOLUME: such a
// driver needs no calls, see attachment.Config.NoPublish.
func NewAttacher(d *Driver, secrets api.SecretsGetter, defaultFSType string) (attachment.Attacher, error) {
	if !d.capabilities.publish {
		return nil, fmt.Errorf("sidecar: driver %s does not declare PUBLISH_UNPUBLISH_VOLUME: %w", d.name, volume.ErrNotSupported)
	}
	a := &attacher{driver: d, secrets: secrets, defaultFSType: defaultFSType}
	if d.capabilities.list && d.capabilities.publishedNodes {
		return &listingAttacher{a}, nil
	}
	return a, nil
}

// An attacher attaches by a driver.
type attacher struct {
	driver        *Driver
	secrets       api.SecretsGetter
	defaultFSType string
}

// Name implements [attachment.Attacher].
func (a *attacher) Name() string { return a.driver.name }

// Check implements [attachment.Checker].
func (a *attacher) Check(ctx context.Context, pv *v1.PersistentVolume) (err error) {
	defer brief.Shorten(&err)
	_, err = a.publication(ctx, pv)
	return err
}

// publication returns the request of ControllerPublishVolume without the node ID, for Check and Attach. Its errors are
// transient: there was no call.
func (a *attacher) publication(ctx context.Context, pv *v1.PersistentVolume) (*csipb.ControllerPublishVolumeRequest, error) {
	if err := a.checkVolume(pv); err != nil {
		return nil, err
	}
	source := pv.Spec.CSI
	capability, err := capabilityOf(pv, a.defaultFSType, a.driver.capabilities)
	if err != nil {
		return nil, volume.AsTransient(err)
	}
	call := &csipb.ControllerPublishVolumeRequest{
		VolumeId: source.VolumeHandle, VolumeCapability: capability, VolumeContext: source.VolumeAttributes,
		Readonly: source.ReadOnly && a.driver.capabilities.publishReadOnly,
	}
	call.Secrets, err = secretsOf(ctx, a.secrets, source.ControllerPublishSecretRef)
	return call, err
}

// Attach implements [attachment.Attacher] by ControllerPublishVolume.
func (a *attacher) Attach(ctx context.Context, req attachment.Request) (_ map[string]string, err error) {
	defer brief.Shorten(&err)
	if err := a.checkNode(req); err != nil {
		return nil, err
	}
	call, err := a.publication(ctx, req.Volume)
	if err != nil {
		return nil, err
	}
	call.NodeId = req.NodeID
	answer, err := a.driver.controller.ControllerPublishVolume(ctx, call)
	return answer.GetPublishContext(), withCode(err)
}

// Detach implements [attachment.Attacher] by ControllerUnpublishVolume. NotFound is an error: by the
// specification it does not mean that the volume is detached. The call has no secrets if the Secret was deleted: the
// VolumeAttachment would stay for ever otherwise.
func (a *attacher) Detach(ctx context.Context, req attachment.Request) (err error) {
	defer brief.Shorten(&err)
	if err := a.checkNode(req); err != nil {
		return err
	}
	if err := a.checkVolume(req.Volume); err != nil {
		return err
	}
	source := req.Volume.Spec.CSI
	secrets, err := remainingSecretsOf(ctx, a.secrets, source.ControllerPublishSecretRef)
	if err != nil {
		return err
	}
	_, err = a.driver.controller.ControllerUnpublishVolume(ctx, &csipb.ControllerUnpublishVolumeRequest{
		VolumeId: source.VolumeHandle, NodeId: req.NodeID, Secrets: secrets,
	})
	return withCode(err)
}

// checkVolume returns a transient error for a volume of another driver, or without a handle.
func (a *attacher) checkVolume(pv *v1.PersistentVolume) error {
	switch source := pv.Spec.CSI; {
	case source == nil || source.Driver != a.driver.name:
		return volume.AsTransient(fmt.Errorf("volume %q is not one of driver %s", brief.Name(pv.Name), a.driver.name))
	case source.VolumeHandle == "":
		return volume.AsTransient(errors.New("the volume has no handle"))
	}
	return nil
}

// checkNode returns a transient error for a request without a node ID. ControllerUnpublishVolume without one detaches
// the volume from all nodes.
func (a *attacher) checkNode(req attachment.Request) error {
	if req.NodeID != "" {
		return nil
	}
	return volume.AsTransient(fmt.Errorf("driver %s has no ID for node %q", a.driver.name, brief.Name(string(req.Node))))
}

// withCode adds the code of a call's error for the status of the VolumeAttachment.
func withCode(err error) error {
	if err == nil {
		return nil
	}
	return attachment.WithErrorCode(err, int32(codeOf(err)))
}

// A listingAttacher is an attacher whose driver lists its attached volumes.
type listingAttacher struct{ *attacher }

// Limits of an answer, after which the list fails: the driver may never end it.
const (
	mostPages = 1 << 16
	// mostListed is the most bytes of the IDs, of which each counts with listedSize.
	mostListed = 128 << 20
	// listedSize is the memory of an ID beside its text.
	listedSize = 64
)

// pageSize is the most entries of a page, if the driver's own pages are above the limit of an answer, 4 MiB. Then an
// entry may have 16 KiB: a volume context has 4 KiB, and the ID of a node 256 bytes.
const pageSize = 256

// ListAttached implements [attachment.Lister] by ListVolumes. The driver chooses the size of its pages, until one of them
// cannot be received.
func (a *listingAttacher) ListAttached(ctx context.Context) (all []attachment.Attached, err error) {
	defer brief.Shorten(&err)
	call, size := &csipb.ListVolumesRequest{}, 0
	for range mostPages {
		page, err := a.driver.controller.ListVolumes(ctx, call)
		if connection.IsUnreadable(err) && call.MaxEntries == 0 {
			call = &csipb.ListVolumesRequest{StartingToken: call.StartingToken, MaxEntries: pageSize}
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range page.GetEntries() {
			attached := attachment.Attached{VolumeHandle: entry.GetVolume().GetVolumeId(), NodeIDs: entry.GetStatus().GetPublishedNodeIds()}
			all, size = append(all, attached), size+sizeOf(attached)
		}
		if page.GetNextToken() == "" {
			return all, nil
		}
		call = &csipb.ListVolumesRequest{StartingToken: page.GetNextToken(), MaxEntries: call.MaxEntries}
		if size > mostListed {
			break
		}
	}
	return nil, volume.AsTransient(fmt.Errorf("list the volumes of driver %s: the list does not end", a.driver.name))
}

// sizeOf returns the memory of an entry.
func sizeOf(a attachment.Attached) int {
	size := listedSize + len(a.VolumeHandle)
	for _, id := range a.NodeIDs {
		size += listedSize + len(id)
	}
	return size
}
