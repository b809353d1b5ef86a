package recycler

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// wait waits until the pod has ended. The watch only makes it quick: the pod is asked
// for besides, so a watch that is closed, broken or silent costs time and no more.
func (r *run) wait(ctx context.Context) error {
	own, cancel := context.WithTimeoutCause(ctx, r.limit(), ErrPodTimeout)
	defer cancel()
	for pause := firstPause; own.Err() == nil; pause = min(2*pause, r.config.PollInterval) {
		if done, err := r.follow(own); done {
			return err
		}
		sleep(own, pause)
	}
	if ctx.Err() != nil {
		return errors.Join(ended(ctx), r.lastErr)
	}
	return errors.Join(transient(ErrPodTimeout, fmt.Errorf("not ended after %v", r.limit())), r.lastErr)
}

// limit is for pods that never start; of others the cluster sees to the deadline.
func (r *run) limit() time.Duration {
	return time.Duration(*r.asked.Spec.ActiveDeadlineSeconds)*time.Second + r.config.StartTimeout
}

// follow watches the pod until it has ended, or the watch has.
func (r *run) follow(ctx context.Context) (done bool, err error) {
	watch, stop := r.watch(ctx)
	defer stop()
	for {
		if done, err := r.ask(ctx); done || watch == nil {
			return done, err
		}
		if open, done, err := r.listen(ctx, watch); done || !open {
			return done, err
		}
	}
}

// watch returns nil if there is no watch to be had, also not in time. The watch lives as
// long as its context, so that cannot have a deadline.
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

// ask looks at the pod itself.
func (r *run) ask(ctx context.Context) (done bool, err error) {
	err = r.within(ctx, func(ctx context.Context) error {
		pod, err := r.config.Client.Get(ctx, r.asked.Namespace, r.asked.Name)
		done, err = r.judgeAnswer(pod, err)
		return err
	})
	return done, err
}

func (r *run) judgeAnswer(pod *v1.Pod, err error) (done bool, _ error) {
	switch {
	case apierrors.IsNotFound(err):
		return true, transient(ErrPodDeleted, err)
	case err != nil:
		r.lastErr = apiError("get the pod", err)
		return isFinal(err), r.lastErr
	case pod == nil || pod.UID != r.uid:
		return true, transient(ErrPodDeleted, errors.New("another pod has its name"))
	}
	r.lastErr = nil
	return r.judge(pod)
}

func (r *run) judge(pod *v1.Pod) (done bool, err error) {
	if done, err := outcome(pod, r.asked); done {
		return true, err
	}
	err = r.image.look(pod, r.config.ImagePullTimeout)
	return err != nil, err
}

// listen takes updates until it is time to ask again, or the watch is over.
func (r *run) listen(ctx context.Context, watch PodWatch) (open, done bool, err error) {
	until, cancel := context.WithTimeout(ctx, r.config.PollInterval)
	defer cancel()
	for {
		update, err := watch.Next(until)
		if err == nil { // also what came at the last moment is news
			if done, err := r.take(update); done {
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

// take looks at news. What is about other pods, as of one that had the name before, is
// none.
func (r *run) take(update PodUpdate) (done bool, err error) {
	if update.Event != nil {
		r.forward(update.Event)
	}
	if update.Pod == nil || update.Pod.UID != r.uid || update.Pod.Name != r.asked.Name {
		return false, nil
	}
	done, err = r.judge(update.Pod)
	if !done && update.Deleted {
		return true, transient(ErrPodDeleted, errors.New("says the watch"))
	}
	return done, err
}
