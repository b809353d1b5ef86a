package recycler

import (
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// scrubsAsAsked reports whether a pod still scrubs the volume by the template's command.
// Defaults, a mirrored image, and further containers are accepted: clusters add them.
func scrubsAsAsked(pod, asked *v1.Pod) bool {
	scrubbed, want := asked.Spec.Volumes[0], scrubber(asked)
	volumes, containers := pod.Spec.Volumes, pod.Spec.Containers
	v := slices.IndexFunc(volumes, func(v v1.Volume) bool { return v.Name == scrubbed.Name })
	c := slices.IndexFunc(containers, func(c v1.Container) bool { return c.Name == want.Name })
	return v >= 0 && c >= 0 &&
		equality.Semantic.DeepDerivative(scrubbed.VolumeSource, volumes[v].VolumeSource) &&
		slices.Equal(want.Command, containers[c].Command) && slices.Equal(want.Args, containers[c].Args) &&
		sameMount(mountOf(want, scrubbed.Name), mountOf(&containers[c], scrubbed.Name))
}

func mountOf(c *v1.Container, name string) *v1.VolumeMount {
	i := slices.IndexFunc(c.VolumeMounts, func(m v1.VolumeMount) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &c.VolumeMounts[i]
}

func sameMount(want, have *v1.VolumeMount) bool {
	return have != nil && have.MountPath == want.MountPath && have.ReadOnly == want.ReadOnly &&
		have.SubPath == want.SubPath && have.SubPathExpr == want.SubPathExpr
}

// hasEnded reports whether no container of the pod runs or will run.
func hasEnded(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// outcome reports whether the pod has ended, and with which error; nil means that the
// volume is scrubbed.
func outcome(pod, asked *v1.Pod) (ended bool, err error) {
	switch {
	case !scrubsAsAsked(pod, asked):
		return true, ErrPodAltered
	case pod.Status.Phase == v1.PodSucceeded:
		return true, nil
	case pod.Status.Phase == v1.PodFailed:
		return true, failure(pod)
	}
	return false, nil
}

// evictions are the reasons of pods that the node ended.
var evictions = []string{
	"Evicted", "Preempting", "Preempted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated",
	"NodeAffinity", "UnexpectedAdmissionError", "OutOfcpu", "OutOfmemory", "OutOfpods",
	"OutOfephemeral-storage",
}

func failure(pod *v1.Pod) error {
	said := errors.New(failureMessages(pod))
	switch reason := pod.Status.Reason; {
	case reason == "DeadlineExceeded":
		return transient(ErrPodTimeout, said)
	case slices.Contains(evictions, reason), isDisrupted(pod):
		return transient(ErrPodEvicted, said)
	}
	return fmt.Errorf("%w: %w", ErrPodFailed, said)
}

func isDisrupted(pod *v1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue
	})
}

// failureMessages returns the pod's messages about its failure, quoted: they may contain file names.
func failureMessages(pod *v1.Pod) string {
	const limit = 512
	text := fmt.Sprintf("%.64q %.*q", pod.Status.Reason, limit, pod.Status.Message)
	for _, c := range pod.Status.ContainerStatuses {
		if end := c.State.Terminated; end != nil {
			text += fmt.Sprintf(" container %.64q: exit code %d %.64q %.*q",
				c.Name, end.ExitCode, end.Reason, limit, end.Message)
		}
	}
	return text
}

// An imageCheck holds the time since when the pod's image cannot be pulled.
type imageCheck struct{ since time.Time }

// check returns an error if the image could not be pulled for longer than limit.
func (c *imageCheck) check(pod *v1.Pod, limit time.Duration) error {
	waiting := missingImage(pod)
	switch {
	case waiting == nil:
		c.since = time.Time{}
		return nil
	case waiting.Reason == "InvalidImageName":
		return fmt.Errorf("%w: %.64q %.512q", ErrPodImage, waiting.Reason, waiting.Message)
	case c.since.IsZero():
		c.since = time.Now()
	}
	if time.Since(c.since) < limit {
		return nil
	}
	return transient(ErrPodImage, fmt.Errorf("%.64q %.512q", waiting.Reason, waiting.Message))
}

var imageReasons = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError",
	"RegistryUnavailable", "SignatureValidationFailed",
}

func missingImage(pod *v1.Pod) *v1.ContainerStateWaiting {
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if waiting := c.State.Waiting; waiting != nil && slices.Contains(imageReasons, waiting.Reason) {
			return waiting
		}
	}
	return nil
}
