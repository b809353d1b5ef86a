package recycler

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/volume"
)

// scrubScript empties /scrub and looks whether it is empty. A directory on which something
// is mounted is neither entered nor removable, and so is an error. The dot keeps the
// shell from dropping names that are line feeds, and the && from missing an ls that
// failed.
const scrubScript = `test -d /scrub && find /scrub -xdev -mindepth 1 -delete && ` +
	`left=$(ls -A /scrub && echo .) && test "$left" = .`

// NewPersistentVolumeRecyclerPodTemplate returns a new copy of the pod that recycles if
// [PodConfig] has no other: it removes everything that is in the volume, enters nothing
// that is mounted in it, and succeeds if the volume is empty then. It runs as root of
// its container with the capabilities that are needed to remove other users' files,
// and without an account.
func NewPersistentVolumeRecyclerPodTemplate() *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pv-recycler-", Namespace: metav1.NamespaceDefault},
		Spec: v1.PodSpec{
			RestartPolicy:                 v1.RestartPolicyNever,
			TerminationGracePeriodSeconds: ptr(int64(5)),
			AutomountServiceAccountToken:  ptr(false),
			EnableServiceLinks:            ptr(false),
			Volumes:                       []v1.Volume{{Name: "vol"}},
			Containers:                    []v1.Container{scrubContainer()},
		},
	}
}

func scrubContainer() v1.Container {
	return v1.Container{
		Name:                     "pv-recycler",
		Image:                    "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6",
		Command:                  []string{"/bin/sh"},
		Args:                     []string{"-c", scrubScript},
		VolumeMounts:             []v1.VolumeMount{{Name: "vol", MountPath: "/scrub"}},
		TerminationMessagePolicy: v1.TerminationMessageFallbackToLogsOnError,
		SecurityContext: &v1.SecurityContext{
			AllowPrivilegeEscalation: ptr(false),
			ReadOnlyRootFilesystem:   ptr(true),
			SeccompProfile:           &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
			Capabilities: &v1.Capabilities{
				Drop: []v1.Capability{"ALL"},
				Add:  []v1.Capability{"DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER"},
			},
		},
	}
}

func ptr[T any](value T) *T { return &value }

// ValidateRecyclerPodTemplate checks that a pod can be made into one that recycles. Its
// first volume is the one to be scrubbed, and a source that it has is replaced; a
// container mounts it, as a whole and writable; and the pod ends: restartPolicy is not
// Always (none is taken for Never). The error is a [*field.Error].
func ValidateRecyclerPodTemplate(pod *v1.Pod) error {
	path := field.NewPath("template")
	switch {
	case pod == nil:
		return field.Required(path, "a pod is needed")
	case len(pod.Spec.Volumes) == 0 || pod.Spec.Volumes[0].Name == "":
		return field.Required(path.Child("spec", "volumes"), "the first volume is the one to be scrubbed")
	case len(pod.Spec.Containers) == 0:
		return field.Required(path.Child("spec", "containers"), "a container has to scrub")
	case pod.Spec.RestartPolicy == v1.RestartPolicyAlways:
		return field.Forbidden(path.Child("spec", "restartPolicy"), "a pod that always starts again never succeeds")
	case scrubber(pod) == nil:
		return volume.Invalid(path.Child("spec", "containers"), pod.Spec.Volumes[0].Name,
			"no container mounts this volume as a whole and writable")
	}
	return nil
}

// scrubber returns the container that scrubs: the first that has the first volume as a
// whole.
func scrubber(pod *v1.Pod) *v1.Container {
	containers := pod.Spec.Containers
	i := slices.IndexFunc(containers, func(c v1.Container) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m v1.VolumeMount) bool {
			return m.Name == pod.Spec.Volumes[0].Name && !m.ReadOnly && m.SubPath == "" && m.SubPathExpr == ""
		})
	})
	if i < 0 {
		return nil
	}
	return &containers[i]
}
