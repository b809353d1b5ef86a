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
	// attempts is how often a call to the API is made if it fails in a way that passes.
	attempts   = 6
	firstPause = 200 * time.Millisecond
	lastPause  = 5 * time.Second
)

// A run is one recycle of one volume by one pod. It is used by one goroutine.
type run struct {
	*Pod
	volume string
	pv     *v1.PersistentVolume
	asked  *v1.Pod // what is created, and by what ours is known

	created bool      // it was tried, and perhaps done
	unclear time.Time // until then it may be done that the API has not answered
	uid     types.UID // of the pod, if known
	image   imageCheck
	events  told
	lastErr error // of asking for the pod
}

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

// recycle removes what is left of earlier runs, scrubs, and leaves no pod. Nothing of an
// earlier pod counts: the volume may have been used since.
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

// create creates the pod, again and again if need be: by the name and the secret of the
// run it is always the same one.
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
		return fmt.Errorf("%w: it would not be found again by its labels", ErrPodAltered)
	}
	return nil
}

// tryCreate returns the pod if it is there, whatever the API said of creating it.
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

// find looks whether the pod of this run is there. Without an error it is not.
func (r *run) find(ctx context.Context) (*v1.Pod, error) {
	pod, err := r.config.Client.Get(ctx, r.asked.Namespace, r.asked.Name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, apiError("get the pod", err)
	case !isOurs(pod, r.asked):
		return nil, transient(ErrPodForeign, errors.New("by what it records"))
	}
	return pod, nil
}

// retry calls what fails in a way that passes until it does not, some times.
func (r *run) retry(ctx context.Context, call func(context.Context) error) error {
	pause := firstPause
	for i := 1; ; i++ {
		err := r.within(ctx, call)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", ended(ctx), err)
		case i == attempts, volume.KindOf(err) != volume.Transient, errors.Is(err, ErrPodForeign):
			return err
		}
		sleep(ctx, pause)
		pause = min(2*pause, lastPause)
	}
}

// within gives a call its time.
func (p *Pod) within(ctx context.Context, call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, p.config.CallTimeout)
	defer cancel()
	return call(ctx)
}

// ended returns the error of a context that has ended.
func ended(ctx context.Context) error {
	return fmt.Errorf("%w (%w)", ctxend.Error(ctx), volume.ErrTransient)
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
