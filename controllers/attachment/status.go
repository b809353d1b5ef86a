package attachment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// guard writes the finalizer and the target to a VolumeAttachment.
func (c *Controller) guard(ctx context.Context, v view) error {
	patch := objectpatch.Of(v.attachment).OfVersion(v.attachment).WithFinalizer(c.rules.finalizer)
	at := v.wanted()
	patch = patch.WithAnnotation(NodeIDAnnotation, at.nodeID)
	if at.handle != "" {
		patch = patch.WithAnnotation(VolumeHandleAnnotation, at.handle)
	} else {
		patch = patch.WithoutAnnotation(VolumeHandleAnnotation)
	}
	return c.patchAttachment(ctx, v.attachment, patch)
}

// forgetTarget removes the target and the finalizer from a VolumeAttachment whose volume is detached. A
// finalizer without a target would stay for ever if the node did not come back.
func (c *Controller) forgetTarget(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	patch := objectpatch.Of(attachment).OfVersion(attachment).WithoutFinalizer(c.rules.finalizer)
	return c.patchAttachment(ctx, attachment, patch.WithoutAnnotation(NodeIDAnnotation).WithoutAnnotation(VolumeHandleAnnotation))
}

// release removes the finalizer of a VolumeAttachment whose volume is detached. The status of one that has
// other finalizers shows it first.
func (c *Controller) release(ctx context.Context, attachment *storagev1.VolumeAttachment) error {
	if len(attachment.Finalizers) > 1 && !c.rules.noPublish && !isBlank(attachment.Status) {
		err := c.patchStatus(ctx, attachment, map[string]any{
			"attached": false, "attachmentMetadata": nil, "attachError": nil, "detachError": nil,
		})
		if err != nil {
			return err
		}
	}
	err := c.patchAttachment(ctx, attachment, objectpatch.Of(attachment).WithoutFinalizer(c.rules.finalizer))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func isBlank(status storagev1.VolumeAttachmentStatus) bool {
	return !status.Attached && len(status.AttachmentMetadata) == 0 && status.AttachError == nil && status.DetachError == nil
}

// recordAttached writes the success of an Attach, unless the status shows it.
func (c *Controller) recordAttached(ctx context.Context, attachment *storagev1.VolumeAttachment, metadata map[string]string) error {
	status := attachment.Status
	if status.Attached && status.AttachError == nil && maps.Equal(status.AttachmentMetadata, metadata) {
		return nil
	}
	entries := map[string]any{}
	for key := range status.AttachmentMetadata {
		entries[key] = nil // of an earlier Attach
	}
	for key, value := range metadata {
		entries[key] = value
	}
	return c.patchStatus(ctx, attachment, map[string]any{"attached": true, "attachmentMetadata": entries, "attachError": nil})
}

// recordFailure reports the error of a call, or the problem that prevents one, and writes it to the status.
// It returns the error, so that the VolumeAttachment is handled again after a pause.
func (c *Controller) recordFailure(ctx context.Context, key api.Key, attachment *storagev1.VolumeAttachment, err error) error {
	if ctx.Err() != nil {
		return err
	}
	at := "attachError"
	if attachment.DeletionTimestamp != nil {
		at = "detachError"
	}
	c.reportFailure(key, attachment, err)
	return errors.Join(err, c.patchStatus(ctx, attachment, map[string]any{at: volumeError(err)}))
}

// volumeError returns the fields of a storagev1.VolumeError, for a merge patch. The type has no field for the code in
// older versions of the API.
func volumeError(err error) map[string]any {
	fields := map[string]any{"time": metav1.NewTime(time.Now()), "message": telemetry.Text(err.Error()), "errorCode": nil}
	if code, ok := errorCode(err); ok {
		fields["errorCode"] = code
	}
	return fields
}

// patchStatus changes the status of a VolumeAttachment, in the given version alone.
func (c *Controller) patchStatus(ctx context.Context, attachment *storagev1.VolumeAttachment, fields map[string]any) error {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": attachment.UID, "resourceVersion": attachment.ResourceVersion},
		"status":   fields,
	})
	if err == nil {
		_, err = c.attachments.Patch(ctx, api.KeyOf(attachment), types.MergePatchType, data, "status")
	}
	if err != nil {
		return fmt.Errorf("patch the status: %w", err)
	}
	return nil
}

// patchAttachment patches a VolumeAttachment. After a refusal the next view is that of the API server.
func (c *Controller) patchAttachment(ctx context.Context, attachment *storagev1.VolumeAttachment, patch objectpatch.Patch) error {
	if err := patchObject(ctx, c.attachments, api.KeyOf(attachment), patch); err != nil {
		return fmt.Errorf("patch the VolumeAttachment: %w", err)
	}
	return nil
}

// guardVolume writes the finalizer to a volume.
func (c *Controller) guardVolume(ctx context.Context, pv *v1.PersistentVolume) error {
	return c.patchVolume(ctx, pv, objectpatch.Of(pv).WithFinalizer(c.rules.finalizer))
}

func (c *Controller) patchVolume(ctx context.Context, pv *v1.PersistentVolume, patch objectpatch.Patch) error {
	if err := patchObject(ctx, c.volumes, api.KeyOf(pv), patch); err != nil {
		return fmt.Errorf("patch PersistentVolume %q: %w", pv.Name, err)
	}
	return nil
}

// patchObject patches an object. The API server refuses a new finalizer of an object that is being deleted:
// after a refusal the next view is that of the API server.
func patchObject[O api.Object](ctx context.Context, objects *api.Objects[O], key api.Key, patch objectpatch.Patch) error {
	data, err := patch.Encode()
	if err != nil {
		return err
	}
	_, err = objects.Patch(ctx, key, types.StrategicMergePatchType, data)
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
		_, readErr := objects.Live(ctx, key)
		err = errors.Join(err, readErr)
	}
	return err
}
