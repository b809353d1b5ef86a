package attachment

import (
	"context"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"k8s.io/apimachinery/pkg/types"
)

// mostSteps ends a turn in which other writers undo each step.
const mostSteps = 20

// A proof has the objects that the API server has shown in this turn, by their UIDs. A cache may be so old
// that another controller has detached the volume since.
type proof struct{ attachment, volume types.UID }

// handleAttachment takes the steps for a VolumeAttachment until none is left.
func (c *Controller) handleAttachment(ctx context.Context, key api.Key) (workers.Result, error) {
	var p proof
	for range mostSteps {
		v, err := c.view(ctx, key)
		if err != nil {
			return workers.Result{}, err
		}
		next, problem := decide(v)
		switch next {
		case stepNone:
			if v.attachment == nil {
				c.attempts.forgetAny(key)
			}
			return workers.Result{After: c.pause(v)}, nil
		case stepFail:
			err = c.recordFailure(ctx, key, v.attachment, problem)
		case stepAttach, stepMove, stepForget, stepDetach, stepRelease:
			err = c.callExclusively(ctx, key, v, next, &p)
		default:
			err = c.write(ctx, key, v, next, &p)
		}
		if err != nil {
			return workers.Result{}, fmt.Errorf("VolumeAttachment %q: %w", key.Name, err)
		}
	}
	return workers.Result{}, fmt.Errorf("VolumeAttachment %q: no end after %d steps", key.Name, mostSteps)
}

// pause returns the pause before the next look at a VolumeAttachment without a step: another program can undo a write
// of the controller before the next list of a cache, which then shows neither. 0: none.
func (c *Controller) pause(v view) time.Duration {
	pause := unseen.PauseForState(c.attachments, v.attachment)
	if v.volume != nil && v.volume.Name != "" { // an inline volume has no object
		pause = max(pause, unseen.PauseForState(c.volumes, v.volume))
	}
	return pause
}

// write takes a step without Attach and Detach. Before the finalizer it checks the volume.
func (c *Controller) write(ctx context.Context, key api.Key, v view, next step, p *proof) error {
	switch next {
	case stepGuard:
		if err := c.check(ctx, v); err != nil {
			return c.recordFailure(ctx, key, v.attachment, err)
		}
		if err := c.guard(ctx, v); err != nil {
			return err
		}
		p.attachment = v.attachment.UID
		return nil
	case stepGuardVolume:
		if err := c.guardVolume(ctx, v.volume); err != nil {
			return err
		}
		p.volume = v.volume.UID
		return nil
	case stepAccept:
		return c.recordAttached(ctx, v.attachment, nil)
	case stepClear:
		return c.patchStatus(ctx, v.attachment, map[string]any{"attachError": nil})
	}
	return fmt.Errorf("step %d is unknown", next)
}

// callExclusively takes a step with a call of the driver, or in place of it, while no other call concerns the
// volume and the node. If the API server shows another state than the caches, it does nothing: the next turn
// has that state.
func (c *Controller) callExclusively(ctx context.Context, key api.Key, v view, next step, p *proof) error {
	unlock, err := c.pairs.Lock(ctx, v.pair())
	if err != nil {
		return err
	}
	defer unlock()
	if err := c.prove(ctx, v, next, p); err != nil {
		return err
	}
	proven, err := c.view(ctx, key)
	if err != nil {
		return err
	}
	if again, _ := decide(proven); again != next || proven.attachment.UID != v.attachment.UID || proven.pair() != v.pair() {
		return nil
	}
	switch next {
	case stepAttach:
		return c.attach(ctx, key, proven)
	case stepMove:
		return c.move(ctx, key, proven)
	case stepForget:
		return c.forgetTarget(ctx, proven.attachment)
	case stepRelease:
		return c.release(ctx, proven.attachment)
	}
	return c.detach(ctx, key, proven)
}

// prove reads the VolumeAttachment from the API server, as the volume of an earlier one may be in use again
// since. For an Attach it reads the volume as well, and only objects that this turn has not written: without
// the finalizers, the attached volume may never be detached.
func (c *Controller) prove(ctx context.Context, v view, next step, p *proof) error {
	if next != stepAttach || p.attachment != v.attachment.UID {
		if _, err := c.attachments.Live(ctx, api.KeyOf(v.attachment)); err != nil {
			return fmt.Errorf("read the VolumeAttachment: %w", err)
		}
		p.attachment = v.attachment.UID
	}
	name := volumeName(v.attachment)
	if next != stepAttach || name == "" || p.volume == v.volume.UID {
		return nil
	}
	if _, err := c.volumes.Live(ctx, api.Key{Name: name}); err != nil {
		return fmt.Errorf("read PersistentVolume %q: %w", name, err)
	}
	p.volume = v.volume.UID
	return nil
}
