package driver

import (
	"context"
	"errors"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
	v1 "k8s.io/api/core/v1"
)

// DeleteVolume implements the controller service. The storage of a volume that no CreateVolume has
// created stays, and the answer is OK.
func (d *driver) DeleteVolume(ctx context.Context, req *csipb.DeleteVolumeRequest) (*csipb.DeleteVolumeResponse, error) {
	if d.provisioner == nil {
		return d.UnimplementedControllerServer.DeleteVolume(ctx, req)
	}
	id, err := requireID(req.GetVolumeId())
	if err != nil {
		return nil, err
	}
	return &csipb.DeleteVolumeResponse{}, d.exclusively(ctx, "delete", id, func() error {
		rec, err := d.createdVolume(id)
		if err != nil || rec == nil {
			return err
		}
		return d.deleteVolume(ctx, id, *rec)
	})
}

// deleteVolume deletes a volume that is in no use. A volume whose deletion has begun is not created again before it
// is deleted: of the errors of the plugin volume.ErrTransient alone says that nothing was deleted.
func (d *driver) deleteVolume(ctx context.Context, id volumeID, rec volumeRecord) error {
	if err := d.checkUnused(ctx, id); err != nil {
		return err
	}
	if err := rec.checkSource(id); err != nil {
		return err
	}
	deleter, err := d.deleter.NewDeleter(volume.NewSpecFromPersistentVolume(rec.Volume, false))
	if err != nil {
		return err
	}
	before := rec
	rec.State = stateDeleting
	if err := d.volumes.write(id.name, rec); err != nil {
		return err
	}
	err = deleter.Delete(ctx)
	switch {
	case err == nil:
		return d.volumes.remove(id.name)
	case volume.KindOf(err) == volume.Transient && before.State == stateReady:
		return errors.Join(err, d.volumes.write(id.name, before))
	}
	return err
}

// deleteStorage deletes the storage of a new volume that has no record.
func (d *driver) deleteStorage(ctx context.Context, pv *v1.PersistentVolume) error {
	deleter, err := d.deleter.NewDeleter(volume.NewSpecFromPersistentVolume(pv, false))
	if err != nil {
		return err
	}
	return deleter.Delete(ctx)
}

// checkSource refuses a record whose volume is not the one with the ID: others may be able to write to the
// directory of the records.
func (r *volumeRecord) checkSource(id volumeID) error {
	if r.Volume == nil || !id.isOf(r.Source) {
		return errOtherSource
	}
	source, err := encodeSource(r.Volume.Spec.PersistentVolumeSource)
	if err == nil && source != r.Source {
		err = errOtherSource
	}
	return err
}

var errOtherSource = errors.New("the record has the source of another volume")

// checkUnused refuses a volume that is attached, or in use on this node.
func (d *driver) checkUnused(ctx context.Context, id volumeID) error {
	attached, err := d.attached.read(id.text)
	if err != nil {
		return err
	}
	if attached != nil {
		return codedf(codes.FailedPrecondition, "volume %s is attached to %d nodes", input.Quote(id.text), len(attached.Nodes))
	}
	used, err := d.onNode.read(id.text)
	if err != nil {
		return err
	}
	if used == nil {
		return nil
	}
	if err := d.forgetEarlier(ctx, id, used); err != nil {
		return err
	}
	if !used.isEmpty() {
		return codedf(codes.FailedPrecondition, "volume %s is used on this node", input.Quote(id.text))
	}
	return nil
}
