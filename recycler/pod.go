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

// PodConfig is what [NewPod] needs. Only Client is required.
type PodConfig struct {
	Client PodClient
	// Namespace is where the pods are. Empty: "default". Who may create pods there, or
	// alter them, is trusted with the volumes.
	Namespace string
	// Owner says who we are, and still is the same after a restart: pods of this owner
	// for a volume are removed before it is recycled. It is a value of a label. Empty:
	// "volumekit".
	Owner string
	// Template is the pod that scrubs, see [ValidateRecyclerPodTemplate]; it is copied.
	// Its names, deadline, and the source of its first volume are replaced. Nil:
	// [NewPersistentVolumeRecyclerPodTemplate].
	Template *v1.Pod
	// Source returns the source by which a pod mounts a persistent volume. Its errors
	// are Recycle's. Nil: [NFSSource]. It may be called concurrently.
	Source func(*v1.PersistentVolume) (v1.VolumeSource, error)

	// MinimumTimeout and TimeoutIncrement, for each GiB of the volume, say how long a
	// pod may scrub: see [CalculateTimeoutForVolume]. They count in seconds, rounded up.
	// 0: 5 min and 30 s.
	MinimumTimeout, TimeoutIncrement time.Duration
	// StartTimeout is how long a pod may take besides: to be scheduled, to start. 0: 5 min.
	StartTimeout time.Duration
	// ImagePullTimeout is for how long pulling the image may fail. 0: 2 min.
	ImagePullTimeout time.Duration
	// CleanupTimeout is for how long it is tried to remove a pod, also when the context
	// has ended. 0: 90 s. It should be longer than the template's grace period and
	// RequestTimeout.
	CleanupTimeout time.Duration
	// RequestTimeout is for how long the API server may go on with a request that it has
	// not answered: if creating a pod failed so, one is waited for and removed. 0: 1 min,
	// the server's own default.
	RequestTimeout time.Duration
	// CallTimeout ends a call to the API. 0: 30 s.
	CallTimeout time.Duration
	// PollInterval is how often the pod is looked at if its watch says nothing. 0: 10 s.
	PollInterval time.Duration

	// Recorder is told of the events that are about our pods, such as that the volume
	// cannot be mounted. It is called by Recycle, which waits for it, and concurrently
	// if Recycle is. Nil: nobody is told.
	Recorder func(Event)
}

// A Pod recycles volumes by pods. It is safe for concurrent use: recycles of one volume,
// and of several that have the same source, wait for each other; others run at a time.
// Make one with [NewPod].
type Pod struct {
	config  PodConfig
	volumes keylock.Map // by UID of the persistent volume; taken first
	storage keylock.Map // by what the pods mount
}

var _ volume.Recycler = (*Pod)(nil)

// NewPod returns a recycler, or what is wrong with the configuration: a [*field.Error].
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
			return field.Invalid(field.NewPath(t.name), t.value.String(), "must not be negative")
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

// Recycle implements [volume.Recycler]: it returns nil only if a pod that it has created
// itself has succeeded, and is gone or has ended. name is for errors; empty is the
// persistent volume's.
//
// When ctx ends the pod is removed, for which it takes at most [PodConfig].CleanupTimeout
// more. A pod that could not be removed is in the error, which then wraps [ErrPodLeft].
// Errors are of type [*PodError], or [*field.Error] if spec was refused and nothing was
// created; both work with errors.As. Volumes that no pod can mount, or that are block
// devices, are refused with [volume.ErrNotSupported]; read-only ones with a
// [*field.Error].
func (p *Pod) Recycle(ctx context.Context, name string, spec *volume.Spec) error {
	r, err := p.newRun(name, spec)
	if err != nil {
		return err
	}
	unlock, err := lockBoth(ctx, &p.volumes, string(r.pv.UID), &p.storage, storageKey(r.asked.Spec.Volumes[0].VolumeSource))
	if err != nil {
		return r.failed(ended(ctx))
	}
	defer unlock()
	return r.failed(r.recycle(ctx))
}
