package recycler

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/volume"
)

// sweep removes the pods that earlier runs have left for the volume: one that still
// runs could remove the files of the next claim.
func (r *run) sweep(ctx context.Context) error {
	var old []v1.Pod
	if err := r.retry(ctx, func(ctx context.Context) (err error) {
		old, err = r.config.Client.List(ctx, r.asked.Namespace, r.labelsOf(r.asked))
		if err != nil {
			return apiError("list the pods of earlier runs", err)
		}
		return nil
	}); err != nil {
		return err
	}
	for i := range old {
		if !isOld(&old[i], r.asked) {
			continue
		}
		if err := r.removeWithin(ctx, &removal{name: old[i].Name, uid: old[i].UID}); err != nil {
			return fmt.Errorf("remove pod %s of an earlier run: %w", old[i].Name, err)
		}
	}
	return nil
}

func (r *run) labelsOf(pod *v1.Pod) map[string]string {
	return map[string]string{OwnerLabel: pod.Labels[OwnerLabel], VolumeUIDLabel: pod.Labels[VolumeUIDLabel]}
}

// cleanUp removes the pod of this run, whatever became of the context.
func (r *run) cleanUp(ctx context.Context) error {
	if !r.created {
		return nil
	}
	return r.removeWithin(context.WithoutCancel(ctx), &removal{name: r.asked.Name, ours: true, uid: r.uid})
}

func (r *run) removeWithin(ctx context.Context, pod *removal) error {
	own, cancel := context.WithTimeoutCause(ctx, r.config.CleanupTimeout, errors.New("the pod was not removed in time"))
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := r.withCallTimeout(own, func(ctx context.Context) error { return r.remove(ctx, pod) })
		switch {
		case err == nil:
			return nil
		case own.Err() != nil:
			return pod.leftError(errors.Join(context.Cause(own), err))
		case volume.KindOf(err) == volume.Final:
			return pod.leftError(err)
		}
		_ = ctxend.Sleep(own, pause) // the next attempt notices the end of own
	}
}

// A removal is a pod to be deleted, with its known state.
type removal struct {
	name   string
	ours   bool      // created by this run
	uid    types.UID // empty: of the pod of this run, if that exists
	ending bool      // its deletion has begun
	ended  bool      // it touches no volume any more
}

var (
	errNotGone = volume.AsTransient(errors.New("the pod still exists"))
	errMayCome = volume.AsTransient(errors.New("the pod may still be created"))
)

// remove removes a pod, and returns nil only if it is seen to be gone, or to have ended
// and to be going.
func (r *run) remove(ctx context.Context, pod *removal) error {
	if pod.uid == "" {
		if done, err := r.identify(ctx, pod); done || err != nil {
			return err
		}
	}
	if err := r.deleteAndSee(ctx, pod); err != nil {
		return err
	}
	if pod.ours && r.mayBeCreated() {
		*pod = removal{name: pod.name, ours: true}
		return errMayCome
	}
	return nil
}

// deleteAndSee deletes the pod and reads it again: the answer to the deletion alone proves
// nothing.
func (r *run) deleteAndSee(ctx context.Context, pod *removal) error {
	var refused error
	if !pod.ending {
		err := r.config.Client.Delete(ctx, r.asked.Namespace, pod.name, pod.uid)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			refused = apiError("delete the pod", err)
		}
	}
	err := r.waitUntilGone(ctx, pod)
	if err != nil && refused != nil {
		return refused
	}
	return err
}

// identify finds the pod of this run by its name. It returns errMayCome while a creation
// without an answer may still succeed.
func (r *run) identify(ctx context.Context, pod *removal) (done bool, err error) {
	found, err := r.find(ctx)
	switch {
	case errors.Is(err, ErrPodForeign):
		return true, nil
	case err != nil:
		return false, err
	case found != nil:
		pod.uid, r.uid = found.UID, found.UID
		return false, nil
	case r.mayBeCreated():
		return false, errMayCome
	}
	return true, nil
}

// mayBeCreated reports whether the API may still create a pod for a request that it has not
// answered: the pod of this run, or a second one after the deletion of the first.
func (r *run) mayBeCreated() bool { return time.Now().Before(r.unclear) }

func (r *run) waitUntilGone(ctx context.Context, pod *removal) error {
	found, err := r.config.Client.Get(ctx, r.asked.Namespace, pod.name)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return apiError("get the pod", err)
	case pod.ours && found != nil && found.UID != pod.uid && isOurs(found, r.asked):
		*pod = removal{name: pod.name, ours: true, uid: found.UID} // it has come late
		return errNotGone
	case found == nil, found.UID != pod.uid:
		return nil
	}
	pod.ending, pod.ended = found.DeletionTimestamp != nil, hasEnded(found)
	if pod.ending && pod.ended {
		return nil
	}
	return errNotGone
}

// leftError returns the error for a pod that may still exist.
func (p *removal) leftError(cause error) error {
	kind := volume.ErrUncertain
	if p.ended {
		kind = volume.ErrTransient
	}
	return fmt.Errorf("%w: %w (%w)", ErrPodLeft, cause, kind)
}
