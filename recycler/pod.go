package recycler

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
)

// PodConfig configures [NewPod]. Only Client is required.
type PodConfig struct {
	Client PodClient
	// Namespace is the pods' namespace. Empty: "default". A right to create or
	// alter pods in it includes access to the volumes.
	Namespace string
	// Owner identifies this recycler, also after a restart: pods of this owner for a
	// volume are removed before it is recycled. It is a label value. Empty: "volumekit".
	Owner string
	// Template is the pod that scrubs, see [ValidateRecyclerPodTemplate]; it is copied.
	// Its names, deadline, and the source of its first volume are replaced. Nil:
	// [NewPersistentVolumeRecyclerPodTemplate].
	Template *v1.Pod
	// Source returns the source by which a pod mounts a persistent volume. Its errors
	// are Recycle's. Nil: [NFSSource]. It may be called concurrently.
	Source func(*v1.PersistentVolume) (v1.VolumeSource, error)

	// MinimumTimeout and TimeoutIncrement, for each GiB of the volume, limit a pod's
	// scrubbing: see [CalculateTimeoutForVolume]. They count in seconds, rounded up.
	// 0: 5 min and 30 s.
	MinimumTimeout, TimeoutIncrement time.Duration
	// StartTimeout limits scheduling and starting a pod. 0: 5 min.
	StartTimeout time.Duration
	// ImagePullTimeout limits the time for which pulling the image may fail. 0: 2 min.
	ImagePullTimeout time.Duration
	// CleanupTimeout limits the removal of a pod, also after the context has ended and
	// Recycle has returned. 0: 90 s. It should exceed the template's grace period and
	// RequestTimeout.
	CleanupTimeout time.Duration
	// RequestTimeout is the time for which the API server may continue a request that it
	// has not answered: after a failed creation Recycle waits so long for the pod, to
	// remove it. 0: 1 min, the server's own default.
	RequestTimeout time.Duration
	// CallTimeout limits a call to the API. 0: 30 s.
	CallTimeout time.Duration
	// PollInterval is the interval of polls besides a silent watch. 0: 10 s.
	PollInterval time.Duration

	// Recorder receives the events about the recycler's pods, such as a failed mount.
	// Recycle calls it and waits for it; concurrent calls of Recycle call it
	// concurrently. Nil: events are dropped.
	Recorder func(Event)
}

// A Pod recycles volumes by pods. It is safe for concurrent use: recycles of one volume,
// and of volumes with the same source, wait for each other; others run in parallel.
// [NewPod] returns one.
type Pod struct {
	config  PodConfig
	volumes keylock.Map // by UID of the persistent volume; locked first
	storage keylock.Map // by the volume source of the pod
	works   works
}

var _ volume.Recycler = (*Pod)(nil)

// NewPod returns a recycler. An invalid configuration is a [*field.Error].
func NewPod(config PodConfig) (*Pod, error) {
	if config.Client == nil {
		return nil, field.Required(field.NewPath("client"), "a client of the cluster is needed")
	}
	if config.Template == nil {
		config.Template = NewPersistentVolumeRecyclerPodTemplate()
	}
	if err := ValidateRecyclerPodTemplate(config.Template); err != nil {
		return nil, err
	}
	if config.Source == nil {
		config.Source = NFSSource
	}
	config.Template = config.Template.DeepCopy()
	setDefault(&config.Namespace, metav1.NamespaceDefault)
	setDefault(&config.Owner, "volumekit")
	if err := config.setTimes(); err != nil {
		return nil, err
	}
	if err := config.validateNames(); err != nil {
		return nil, err
	}
	return &Pod{config: config}, nil
}

func (c *PodConfig) setTimes() error {
	for _, t := range []struct {
		name     string
		value    *time.Duration
		fallback time.Duration
	}{
		{"minimumTimeout", &c.MinimumTimeout, 5 * time.Minute},
		{"timeoutIncrement", &c.TimeoutIncrement, 30 * time.Second},
		{"startTimeout", &c.StartTimeout, 5 * time.Minute},
		{"imagePullTimeout", &c.ImagePullTimeout, 2 * time.Minute},
		{"cleanupTimeout", &c.CleanupTimeout, 90 * time.Second},
		{"requestTimeout", &c.RequestTimeout, time.Minute},
		{"callTimeout", &c.CallTimeout, 30 * time.Second},
		{"pollInterval", &c.PollInterval, 10 * time.Second},
	} {
		setDefault(t.value, t.fallback)
		if *t.value < 0 {
			return field.Invalid(field.NewPath(t.name), t.value.String(), "must be at least 0")
		}
	}
	return nil
}

func (c *PodConfig) validateNames() error {
	if wrong := validation.IsDNS1123Label(c.Namespace); len(wrong) > 0 {
		return volume.Invalid(field.NewPath("namespace"), c.Namespace, wrong[0])
	}
	if wrong := validation.IsValidLabelValue(c.Owner); len(wrong) > 0 {
		return volume.Invalid(field.NewPath("owner"), c.Owner, wrong[0])
	}
	return nil
}

func setDefault[T comparable](value *T, fallback T) {
	var zero T
	if *value == zero {
		*value = fallback
	}
}

// Wait returns nil when no recycling is in flight and no pod is being removed, including
// those of calls whose contexts have ended; or, when ctx ends, an error that wraps
// ctx.Err() and the cause. A program calls Wait before it exits, to leave no pod.
func (p *Pod) Wait(ctx context.Context) error { return p.works.wait(ctx) }

// Recycle implements [volume.Recycler]: it returns nil only if a pod that this call has
// created has succeeded, and is gone or has ended. name appears in errors; empty: the
// persistent volume's name.
//
// When ctx ends, Recycle returns soon. The removal of the pod then continues without the
// caller for at most [PodConfig].CleanupTimeout, see [Pod.Wait]; the next Recycle of the
// volume waits for its end. An error that wraps [ErrPodLeft] says that the pod was not
// gone when Recycle returned.
//
// Errors are of type [*PodError], or [*field.Error] if spec was refused and nothing was
// created; both work with errors.As. Volumes that no pod can mount, and block devices,
// are refused with [volume.ErrNotSupported]; read-only volumes with a [*field.Error].
func (p *Pod) Recycle(ctx context.Context, name string, spec *volume.Spec) error {
	r, err := p.newRun(name, spec)
	if err != nil {
		return err
	}
	unlock, err := lockBoth(ctx, &p.volumes, string(r.pv.UID), &p.storage, storageKey(r.asked.Spec.Volumes[0].VolumeSource))
	if err != nil {
		return r.failed(endedError(ctx))
	}
	return p.works.inTime(ctx, unlock, func() error { return r.failed(r.recycle(ctx)) }, r.continuesError)
}
