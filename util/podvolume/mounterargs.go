package podvolume

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util/ownership"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// MounterArgs returns the requirements of a pod for one of its volumes, for
// [volume.Mounter]:
//
//   - ReadOnly, if no container writes to it, see [ReadOnly];
//   - FsGroup and FSGroupChangePolicy, as the pod's securityContext has them;
//   - FsUser, if all containers run as the same user by name: by runAsUser of their own
//     securityContext, or else of the pod's. Ephemeral containers do not count;
//   - DesiredSize, of an emptyDir in memory: its sizeLimit, or the memory limit of the
//     pod ([Memory]) if that is less.
//
// SELinuxLabel is left out: it depends on the node. V is the volume as it is in the pod,
// also if it leads to a persistent one. The error is of a quantity that is none, see
// [quantity.Check]. Neither the pod nor the volume is changed or kept; without either nothing
// is asked.
func MounterArgs(pod *v1.Pod, v *v1.Volume) (volume.MounterArgs, error) {
	if pod == nil || v == nil {
		return volume.MounterArgs{}, nil
	}
	size, err := desiredSizeOf(pod, v)
	args := volume.MounterArgs{
		ReadOnly:    ReadOnly(pod, v.Name),
		FsUser:      fsUserOf(pod),
		DesiredSize: size,
	}
	if c := pod.Spec.SecurityContext; c != nil {
		args.FsGroup, args.FSGroupChangePolicy = copyOf(c.FSGroup), copyOf(c.FSGroupChangePolicy)
	}
	return args, err
}

// RefuseSizeAndLabel returns an error that names the argument and wraps [volume.ErrNotSupported]
// if a size or an SELinux label is requested, for plugins that manage neither. Kind names the
// volume in the error, such as "a local volume".
func RefuseSizeAndLabel(kind string, args volume.MounterArgs) error {
	var refused string
	switch {
	case args.DesiredSize != nil:
		refused = "DesiredSize"
	case args.SELinuxLabel != "":
		refused = "SELinuxLabel"
	default:
		return nil
	}
	return fmt.Errorf("MounterArgs.%s for %s: %w", refused, kind, volume.ErrNotSupported)
}

// OwnershipOptions returns the options to give the files of a volume to the pod's FsGroup, with its
// policy.
func OwnershipOptions(args volume.MounterArgs) ownership.Options {
	o := ownership.Options{Group: args.FsGroup}
	if policy := args.FSGroupChangePolicy; policy != nil && *policy == v1.FSGroupChangeOnRootMismatch {
		o.Policy = ownership.OnRootMismatch
	}
	return o
}

func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	c := *p
	return &c
}

// fsUserOf returns the user that all containers run as, if it is one.
func fsUserOf(pod *v1.Pod) *int64 {
	var one *int64
	all := append(append([]v1.Container{}, pod.Spec.InitContainers...), pod.Spec.Containers...)
	for _, c := range all {
		user := userOf(pod, c)
		if user == nil || one != nil && *one != *user {
			return nil
		}
		one = user
	}
	return copyOf(one)
}

// userOf returns the user of the container's or else of the pod's security context, or nil.
func userOf(pod *v1.Pod, c v1.Container) *int64 {
	if c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil {
		return c.SecurityContext.RunAsUser
	}
	if pod.Spec.SecurityContext != nil {
		return pod.Spec.SecurityContext.RunAsUser
	}
	return nil
}

// desiredSizeOf is for volumes in memory: no more than the volume's own limit, and
// than the pod may use.
func desiredSizeOf(pod *v1.Pod, v *v1.Volume) (*resource.Quantity, error) {
	if v.EmptyDir == nil || v.EmptyDir.Medium != v1.StorageMediumMemory {
		return nil, nil
	}
	if err := errors.Join(checkMemory(pod), quantity.CheckOf("emptyDir.sizeLimit", v.EmptyDir.SizeLimit)); err != nil {
		return nil, err
	}
	size, err := quantity.Bytes(v.EmptyDir.SizeLimit)
	if memory := Memory(pod); err == nil && memory > 0 && (size <= 0 || memory < size) {
		size = memory
	}
	if err != nil || size <= 0 {
		return nil, err
	}
	return resource.NewQuantity(size, resource.BinarySI), nil
}

// checkMemory accepts limits that can be added and compared.
func checkMemory(pod *v1.Pod) error {
	for _, containers := range [][]v1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for _, c := range containers {
			limit := c.Resources.Limits[v1.ResourceMemory]
			if err := quantity.CheckOf("a container's resources.limits.memory", &limit); err != nil {
				return err
			}
		}
	}
	return nil
}
