package attachment

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/panics"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// check calls Check for a VolumeAttachment without the finalizer, if the Attacher has the method. A volume that Attach
// would refuse gets no finalizer, so its VolumeAttachment can end without a Detach. A volume that may be attached, as
// the status or the record says, gets the finalizer without a check: a user has removed it.
func (c *Controller) check(ctx context.Context, v view) error {
	checker, ok := c.config.Attacher.(Checker)
	mayBeAttached := v.attachment.Status.Attached || recordedTarget(v.attachment).nodeID != ""
	if !ok || mayBeAttached || hasFinalizer(v.attachment, c.rules.finalizer) {
		return nil
	}
	ctx, cancel := within(ctx, c.config.Timeout)
	defer cancel()
	began := time.Now()
	err := checker.Check(ctx, v.volume.DeepCopy())
	if err != nil {
		c.reportDuration(operationAttach, time.Since(began), err) // as an Attach that fails
	}
	return err
}

// attach calls Attach and writes its outcome to the status.
func (c *Controller) attach(ctx context.Context, key api.Key, v view) error {
	last := c.attempts.get(key, v.attachment.UID)
	pv := v.volume
	if last.open != nil && last.open.UID == pv.UID {
		pv = last.open // the same call again
	}
	metadata, err := c.callAttach(ctx, request(v, pv))
	c.rememberAttach(key, v.attachment, pv, err)
	if err != nil {
		return c.recordFailure(ctx, key, v.attachment, err)
	}
	err = c.recordAttached(ctx, v.attachment, metadata)
	if err != nil {
		err = errors.Join(err, c.checkOrphan(ctx, key, v))
	}
	return err
}

// checkOrphan reports an attached volume whose VolumeAttachment has ended during the Attach, without its
// finalizer: a user has removed it, or another controller has detached the volume before. It stays attached:
// a later VolumeAttachment, which the cache does not show yet, may have attached it again.
func (c *Controller) checkOrphan(ctx context.Context, key api.Key, v view) error {
	live, err := c.attachments.Live(ctx, key)
	if err != nil {
		return fmt.Errorf("read the VolumeAttachment: %w", err)
	}
	if live == nil {
		c.reportUnexpected(v.volume, v.attachedNodeID())
	}
	return nil
}

// rememberAttach keeps the outcome of an Attach. A transient error is no news of an earlier call whose
// outcome is unknown.
func (c *Controller) rememberAttach(key api.Key, attachment *storagev1.VolumeAttachment, pv *v1.PersistentVolume, err error) {
	c.attempts.change(key, attachment.UID, func(last *attempt) {
		switch volume.KindOf(err) {
		case volume.Uncertain:
			last.open = pv
		case volume.Transient:
		default:
			last.open = nil
		}
		if err == nil {
			last.isLost, last.announced = false, ""
		}
	})
}

// detach calls Detach and removes the finalizer.
func (c *Controller) detach(ctx context.Context, key api.Key, v view) error {
	if err := c.callDetach(ctx, request(v, v.attachedVolume())); err != nil {
		return c.recordFailure(ctx, key, v.attachment, err)
	}
	err := c.release(ctx, v.attachment)
	if err != nil {
		err = errors.Join(err, c.checkSuccessor(ctx, key, v.attachment))
	}
	return err
}

// checkSuccessor attaches a volume again whose VolumeAttachment another controller has ended during a
// Detach: the call may have come after the Attach for a later VolumeAttachment of the name.
func (c *Controller) checkSuccessor(ctx context.Context, key api.Key, ended *storagev1.VolumeAttachment) error {
	successor, err := c.attachments.Live(ctx, key)
	if err != nil {
		return fmt.Errorf("read the VolumeAttachment: %w", err)
	}
	if successor != nil && successor.UID != ended.UID && successor.Status.Attached {
		c.attempts.forget(key, ended.UID)
		c.attempts.setLost(key, successor.UID, true)
	}
	return nil
}

// move calls Detach for the recorded target of a volume that is not attached by its status, and removes the
// record.
func (c *Controller) move(ctx context.Context, key api.Key, v view) error {
	pv := v.attachedVolume()
	if pv == nil {
		return c.recordFailure(ctx, key, v.attachment, errNoVolume)
	}
	if err := c.callDetach(ctx, request(v, pv)); err != nil {
		return c.recordFailure(ctx, key, v.attachment, fmt.Errorf("detach from the earlier node ID or volume: %w", err))
	}
	c.attempts.change(key, v.attachment.UID, func(last *attempt) { last.open = nil })
	return c.forgetTarget(ctx, v.attachment)
}

// request returns the request for the recorded target.
func request(v view, pv *v1.PersistentVolume) Request {
	return Request{Volume: pv.DeepCopy(), Node: types.NodeName(v.attachment.Spec.NodeName), NodeID: v.attachedNodeID()}
}

// callAttach calls Attach and checks its result.
func (c *Controller) callAttach(ctx context.Context, req Request) (metadata map[string]string, err error) {
	err = c.call(ctx, operationAttach, func(ctx context.Context) (err error) {
		metadata, err = c.config.Attacher.Attach(ctx, req)
		if err == nil {
			err = checkMetadata(metadata)
		}
		return err
	})
	return metadata, err
}

func (c *Controller) callDetach(ctx context.Context, req Request) error {
	return c.call(ctx, operationDetach, func(ctx context.Context) error { return c.config.Attacher.Detach(ctx, req) })
}

// call calls the driver within Config.Timeout.
func (c *Controller) call(ctx context.Context, operation string, f func(context.Context) error) error {
	return c.callWithin(ctx, c.config.Timeout, operation, f)
}

// callWithin calls the driver within a limit, unless the limit is 0. An error of the ended context leaves the outcome
// unknown, unless the Attacher has marked it as transient.
func (c *Controller) callWithin(ctx context.Context, limit time.Duration, operation string, f func(context.Context) error) error {
	ctx, cancel := within(ctx, limit)
	defer cancel()
	began := time.Now()
	err := c.safely(ctx, operation, f)
	if ctx.Err() != nil && volume.KindOf(err) == volume.Transient && !errors.Is(err, volume.ErrTransient) {
		err = volume.AsUncertain(err) // the call may have begun
	}
	c.reportDuration(operation, time.Since(began), err)
	return err
}

// safely calls the driver. A panic is an uncertain error.
func (c *Controller) safely(ctx context.Context, operation string, f func(context.Context) error) (err error) {
	defer panics.AsUncertain(&err, c.config.Logger, "of", "Attacher", "operation", operation)
	return f(ctx)
}

// within returns a context with a limit, unless the limit is 0.
func within(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	if limit == 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, limit)
}

// checkMetadata returns an error for metadata that the API server does not store. The volume is attached
// then.
func checkMetadata(metadata map[string]string) error {
	size := 0
	for key, value := range metadata {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return volume.AsUncertain(errors.New("the metadata of the attached volume is not UTF-8"))
		}
		size += len(key) + len(value)
	}
	if size > mostMetadata {
		return volume.AsUncertain(fmt.Errorf("the metadata of the attached volume has %d bytes, more than %d", size, mostMetadata))
	}
	return nil
}
