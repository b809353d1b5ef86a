package recycler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// wait waits until the pod has ended. The watch makes it quick; polls make it certain, so
// a watch that is closed, broken or silent costs time alone.
func (r *run) wait(ctx context.Context) error {
	own, cancel := context.WithTimeoutCause(ctx, r.limit(), ErrPodTimeout)
	defer cancel()
	for pause := firstPause; own.Err() == nil; pause = min(2*pause, r.config.PollInterval) {
		if done, err := r.follow(own); done {
			return err
		}
		_ = ctxend.Sleep(own, pause) // the loop notices the end of own
	}
	if ctx.Err() != nil {
		return errors.Join(endedError(ctx), r.lastErr)
	}
	return errors.Join(transient(ErrPodTimeout, fmt.Errorf("not ended after %v", r.limit())), r.lastErr)
}

// limit ends the wait for pods that never start; the cluster enforces the deadline of others.
func (r *run) limit() time.Duration {
	return time.Duration(*r.asked.Spec.ActiveDeadlineSeconds)*time.Second + r.config.StartTimeout
}

// follow watches the pod until the pod or the watch has ended.
func (r *run) follow(ctx context.Context) (done bool, err error) {
	watch, stop := r.watch(ctx)
	defer stop()
	for {
		if done, err := r.poll(ctx); done || watch == nil {
			return done, err
		}
		if open, done, err := r.handleUpdates(ctx, watch); done || !open {
			return done, err
		}
	}
}

// watch returns nil if the watch fails or does not begin in time. The watch lives as long
// as its context, so the context has no deadline.
func (r *run) watch(ctx context.Context) (_ PodWatch, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	late := time.AfterFunc(r.config.CallTimeout, cancel)
	defer late.Stop()
	pod := r.asked.DeepCopy()
	pod.UID = r.uid
	watch, err := r.config.Client.Watch(ctx, pod)
	if err != nil || watch == nil {
		return nil, cancel
	}
	return watch, func() { watch.Stop(); cancel() }
}

// poll polls the pod.
func (r *run) poll(ctx context.Context) (done bool, err error) {
	err = r.withCallTimeout(ctx, func(ctx context.Context) error {
		pod, err := r.config.Client.Get(ctx, r.asked.Namespace, r.asked.Name)
		done, err = r.evaluateQuery(pod, err)
		return err
	})
	return done, err
}

// evaluateQuery handles the answer to a query of the pod. done reports whether the run has
// ended.
func (r *run) evaluateQuery(pod *v1.Pod, err error) (done bool, _ error) {
	switch {
	case apierrors.IsNotFound(err):
		return true, transient(ErrPodDeleted, err)
	case err != nil:
		r.lastErr = apiError("get the pod", err)
		return isFinal(err), r.lastErr
	case pod == nil || pod.UID != r.uid:
		return true, transient(ErrPodDeleted, errors.New("another pod has the name"))
	}
	r.lastErr = nil
	return r.evaluate(pod)
}

func (r *run) evaluate(pod *v1.Pod) (done bool, err error) {
	if done, err := outcome(pod, r.asked); done {
		return true, err
	}
	err = r.image.check(pod, r.config.ImagePullTimeout)
	return err != nil, err
}

// handleUpdates handles updates until the next poll is due or the watch has ended.
func (r *run) handleUpdates(ctx context.Context, watch PodWatch) (open, done bool, err error) {
	until, cancel := context.WithTimeout(ctx, r.config.PollInterval)
	defer cancel()
	for {
		update, err := watch.Next(until)
		if err == nil { // an update at the last moment counts, too
			if done, err := r.handleUpdate(update); done {
				return true, true, err
			}
		}
		if until.Err() != nil {
			return ctx.Err() == nil, false, nil
		}
		if err != nil {
			return false, false, nil
		}
	}
}

// handleUpdate handles an update. It ignores updates of other pods, such as an earlier pod of the
// same name.
func (r *run) handleUpdate(update PodUpdate) (done bool, err error) {
	if update.Event != nil {
		r.forward(update.Event)
	}
	if update.Pod == nil || update.Pod.UID != r.uid || update.Pod.Name != r.asked.Name {
		return false, nil
	}
	done, err = r.evaluate(update.Pod)
	if !done && update.Deleted {
		return true, transient(ErrPodDeleted, errors.New("the watch reported the deletion"))
	}
	return done, err
}
