package manager

import (
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/quantity"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// argsOf is what the pod asks of its volume.
func argsOf(pod *v1.Pod, v *v1.Volume) (volume.MounterArgs, error) {
	size, err := desiredSizeOf(pod, v)
	args := volume.MounterArgs{
		ReadOnly:    util.ReadOnlyInPod(pod, v.Name),
		FsUser:      fsUserOf(pod),
		DesiredSize: size,
	}
	if c := pod.Spec.SecurityContext; c != nil {
		args.FsGroup, args.FSGroupChangePolicy = c.FSGroup, c.FSGroupChangePolicy
	}
	return args, err
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
	return one
}

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
	if err := errors.Join(checkMemory(pod), checkQuantity("emptyDir.sizeLimit", v.EmptyDir.SizeLimit)); err != nil {
		return nil, err
	}
	size, err := quantity.Bytes(v.EmptyDir.SizeLimit)
	if memory := util.PodMemory(pod); err == nil && memory > 0 && (size <= 0 || memory < size) {
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
			if err := checkQuantity("a container's resources.limits.memory", &limit); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkQuantity(what string, q *resource.Quantity) error {
	if err := quantity.Check(q); err != nil {
		return fmt.Errorf("%s is %.80s: %w", what, quantity.Text(q), err)
	}
	return nil
}
