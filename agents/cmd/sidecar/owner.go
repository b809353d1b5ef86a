package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// ownerTimeout limits the reads of the pod and its ReplicaSet.
const ownerTimeout = 30 * time.Second

// The levels of --capacity-ownerref-level.
const (
	noOwner         = -1
	podOwner        = 0
	controllerOwner = 1 // the controller of the pod, such as a ReplicaSet
	deploymentOwner = 2 // the controller of the pod's ReplicaSet
)

// owner returns the owner of the storage capacities, or nil.
func (p *program) owner(ctx context.Context, clientset kubernetes.Interface) (*metav1.OwnerReference, error) {
	if p.ownerLevel == noOwner {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	pod, err := clientset.CoreV1().Pods(p.pod.namespace).Get(ctx, p.pod.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("--capacity-ownerref-level: %w", err)
	}
	if p.ownerLevel == podOwner {
		return &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}, nil
	}
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return nil, fmt.Errorf("--capacity-ownerref-level: pod %s has no controller", pod.Name)
	}
	if p.ownerLevel == controllerOwner {
		return withoutFlags(controller), nil
	}
	if controller.Kind != "ReplicaSet" {
		return nil, fmt.Errorf("--capacity-ownerref-level: the controller of pod %s is %s %s, and must be a ReplicaSet", pod.Name, controller.Kind, controller.Name)
	}
	set, err := clientset.AppsV1().ReplicaSets(p.pod.namespace).Get(ctx, controller.Name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("--capacity-ownerref-level: %w", err)
	}
	if controller = metav1.GetControllerOf(set); controller == nil {
		return nil, fmt.Errorf("--capacity-ownerref-level: ReplicaSet %s has no controller", set.Name)
	}
	return withoutFlags(controller), nil
}

// withoutFlags returns a reference that neither controls nor blocks a deletion.
func withoutFlags(ref *metav1.OwnerReference) *metav1.OwnerReference {
	return &metav1.OwnerReference{APIVersion: ref.APIVersion, Kind: ref.Kind, Name: ref.Name, UID: ref.UID}
}
