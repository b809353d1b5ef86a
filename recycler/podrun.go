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

const (
	// attempts is the number of calls to the API while it fails transiently.
	attempts   = 6
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// A run is one recycle of one volume by one pod. It is used by one goroutine.
type run struct {
	*Pod
	volume string
	pv     *v1.PersistentVolume
	asked  *v1.Pod // the pod to create; its labels identify the created one

	created bool      // a creation was attempted, and may have succeeded
	unclear time.Time // until then the API may execute a creation that it has not answered
	uid     types.UID // of the pod, if known
	image   imageCheck
	events  forwardedEvents
	lastErr error // of the last Get of the pod
}

// newRun validates a volume and prepares the pod that scrubs it. It creates nothing.
func (p *Pod) newRun(name string, spec *volume.Spec) (*run, error) {
	if err := check(spec); err != nil {
		return nil, err
	}
	pv := spec.PersistentVolume
	source, err := p.config.Source(pv)
	if err != nil {
		return nil, err
	}
	asked, err := p.newPod(pv, source)
	if err != nil {
		return nil, err
	}
	setDefault(&name, pv.Name)
	return &run{Pod: p, volume: name, pv: pv, asked: asked}, nil
}

// recycle removes the pods of earlier runs, scrubs, and leaves no pod. The success of an
// earlier pod does not count: the volume may have been used since.
func (r *run) recycle(ctx context.Context) (err error) {
	if err := r.sweep(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.cleanUp(ctx)) }()
	if err := r.create(ctx); err != nil {
		return err
	}
	return r.wait(ctx)
}

func (r *run) failed(err error) error {
	if err == nil {
		return nil
	}
	e := &PodError{Volume: r.volume, Namespace: r.asked.Namespace, Err: err}
	if r.created {
		e.Pod, e.UID = r.asked.Name, r.uid
	}
	return e
}

// continuesError returns the error of a caller that returns while the run continues.
func (r *run) continuesError(err error) error {
	return &PodError{
		Volume: r.volume, Namespace: r.asked.Namespace, Pod: r.asked.Name,
		Err: fmt.Errorf("%w: %w", ErrPodLeft, err),
	}
}

// create creates the pod, repeatedly if need be: the run's name and secret make all
// attempts create the same pod.
func (r *run) create(ctx context.Context) error {
	var pod *v1.Pod
	if err := r.retry(ctx, func(ctx context.Context) (err error) {
		pod, err = r.tryCreate(ctx)
		return err
	}); err != nil {
		return err
	}
	r.uid = pod.UID
	if !isOld(pod, r.asked) {
		return fmt.Errorf("%w: the labels differ", ErrPodAltered)
	}
	return nil
}

// tryCreate returns the pod if it exists, also if its creation returned an error.
func (r *run) tryCreate(ctx context.Context) (*v1.Pod, error) {
	r.created = true
	pod, err := r.config.Client.Create(ctx, r.asked.DeepCopy())
	if err == nil && isOurs(pod, r.asked) {
		return pod, nil
	}
	if err == nil || !isRefusal(err) {
		r.unclear = time.Now().Add(r.config.RequestTimeout)
	}
	found, findErr := r.find(ctx)
	switch {
	case found != nil:
		return found, nil
	case findErr != nil:
		return nil, fmt.Errorf("create the pod: %w", errors.Join(err, findErr))
	case err == nil:
		return nil, transient(ErrPodAPI, errors.New("create the pod: the answer is another pod"))
	}
	return nil, apiError("create the pod", err)
}

// find returns the pod of this run, or nil and no error if it does not exist.
func (r *run) find(ctx context.Context) (*v1.Pod, error) {
	pod, err := r.config.Client.Get(ctx, r.asked.Namespace, r.asked.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, apiError("get the pod", err)
	case !isOurs(pod, r.asked):
		return nil, transient(ErrPodForeign, errors.New("the annotations differ"))
	}
	return pod, nil
}

// retry repeats a call that fails transiently, up to attempts times.
func (r *run) retry(ctx context.Context, call func(context.Context) error) error {
	pause := firstPause
	for i := 1; ; i++ {
		err := r.withCallTimeout(ctx, call)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", endedError(ctx), err)
		case i == attempts, volume.KindOf(err) != volume.Transient, errors.Is(err, ErrPodForeign):
			return err
		}
		_ = ctxend.Sleep(ctx, pause) // the next call notices the end of ctx
		pause = min(2*pause, lastPause)
	}
}

// withCallTimeout limits a call to CallTimeout.
func (p *Pod) withCallTimeout(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.config.CallTimeout)
	defer cancel()
	return call(ctx)
}

// endedError returns the error of a context that has ended.
func endedError(ctx context.Context) error {
	return volume.AsTransient(ctxend.Error(ctx))
}
