package recycler

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/volumekit/volumekit/volume"
)

// scrubScript empties /scrub and checks that it is empty. A directory that is a mount point
// is neither entered nor removable, and so is an error. The dot keeps the shell from
// dropping names that are line feeds, and the && from missing a failed ls.
const scrubScript = `test -d /scrub && find /scrub -xdev -mindepth 1 -delete && ` +
	`left=$(ls -A /scrub && echo .) && test "$left" = .`

// NewPersistentVolumeRecyclerPodTemplate returns a new copy of the default pod of
// [PodConfig]: it removes all files of the volume, does not enter mounts inside it, and
// succeeds if the volume is empty afterwards. It runs as root of its container with the
// capabilities that removing other users' files requires, and without a service account.
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

// ValidateRecyclerPodTemplate checks that a pod can be a template. Its first volume is the
// one to be scrubbed; the volume's source is replaced. A container mounts that volume, as a
// whole and writable. The pod ends: restartPolicy is not Always (an empty one counts as
// Never). The error is a [*field.Error].
func ValidateRecyclerPodTemplate(pod *v1.Pod) error {
	path := field.NewPath("template")
	switch {
	case pod == nil:
		return field.Required(path, "a pod is needed")
	case len(pod.Spec.Volumes) == 0 || pod.Spec.Volumes[0].Name == "":
		return field.Required(path.Child("spec", "volumes"), "the first volume is the volume to scrub")
	case len(pod.Spec.Containers) == 0:
		return field.Required(path.Child("spec", "containers"), "a container that scrubs is needed")
	case pod.Spec.RestartPolicy == v1.RestartPolicyAlways:
		return field.Forbidden(path.Child("spec", "restartPolicy"), "must not be Always: the pod would never succeed")
	case scrubber(pod) == nil:
		return volume.Invalid(path.Child("spec", "containers"), pod.Spec.Volumes[0].Name,
			"no container mounts this volume as a whole and writable")
	}
	return nil
}

// scrubber returns the container that scrubs: the first that mounts the first volume as a
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
