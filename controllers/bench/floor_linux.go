package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// measureFloor makes the calls of an agent for each pod as soon as the pod has come to the node, and
// sets no volume up.
func (c *cluster) measureFloor(ctx context.Context, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &floor{cluster: c, arrived: map[string]chan struct{}{}}
	// The API server may end a watch at any time; a cache watches again.
	pods := api.NewCache(kubeclient.New(c.measured).Pods(""), api.CacheConfig{FieldSelector: "spec.nodeName=" + nodeName})
	_, _, err := pods.Subscribe(f.report)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- pods.Run(ctx) }()
	if err := pods.WaitForSync(ctx); err != nil {
		return err
	}
	err = f.measure(ctx, n)
	cancel()
	return errors.Join(err, <-ended)
}

// measure brings pods up one after another and all at once.
func (f *floor) measure(ctx context.Context, n int) error {
	for _, way := range ways {
		created, err := f.createPods(ctx, "floor-"+way.name, n)
		if err != nil {
			return err
		}
		times, cpu, err := f.bindAll(ctx, created, way.abreast, f.up)
		if err != nil {
			return err
		}
		f.print("floor, "+way.name, n, times, cpu)
		if err := f.removePods(ctx, created, nil); err != nil {
			return err
		}
	}
	return nil
}

// A floor makes the calls for pods.
type floor struct {
	*cluster
	mu      sync.Mutex
	arrived map[string]chan struct{} // closed when the pod has come to the node
}

func (f *floor) arrival(pod string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.arrived[pod] == nil {
		f.arrived[pod] = make(chan struct{})
	}
	return f.arrived[pod]
}

// report closes the channel of a pod that has come to the node.
func (f *floor) report(change api.Change[*v1.Pod]) {
	if change.Old == nil {
		close(f.arrival(change.New.Name))
	}
}

// up waits for a pod, and makes the calls for it. The watches end with ctx.
func (f *floor) up(ctx context.Context, pod *v1.Pod) error {
	select {
	case <-f.arrival(pod.Name):
	case <-ctx.Done():
		return ctx.Err()
	}
	core, options := f.measured.CoreV1(), metav1.ListOptions{FieldSelector: "metadata.name=" + pod.Name}
	follow := func(list func() (metav1.ListInterface, error), watch func(context.Context, metav1.ListOptions) (watch.Interface, error)) error {
		found, err := list()
		if err != nil {
			return err
		}
		options := options
		options.ResourceVersion = found.GetResourceVersion()
		_, err = watch(ctx, options)
		return err
	}
	calls := []func() error{
		func() error {
			return follow(func() (metav1.ListInterface, error) { return core.ConfigMaps(namespace).List(ctx, options) }, core.ConfigMaps(namespace).Watch)
		},
		func() error {
			return follow(func() (metav1.ListInterface, error) { return core.Secrets(namespace).List(ctx, options) }, core.Secrets(namespace).Watch)
		},
		func() error { // the claim names the volume
			return errors.Join(
				follow(func() (metav1.ListInterface, error) {
					return core.PersistentVolumeClaims(namespace).List(ctx, options)
				}, core.PersistentVolumeClaims(namespace).Watch),
				follow(func() (metav1.ListInterface, error) { return core.PersistentVolumes().List(ctx, options) }, core.PersistentVolumes().Watch))
		},
		func() error {
			request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
				BoundObjectRef: &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}}
			_, err := core.ServiceAccounts(namespace).CreateToken(ctx, "default", request, metav1.CreateOptions{})
			return err
		},
	}
	err := each(len(calls), len(calls), func(i int) error { return calls[i]() })
	if err != nil {
		return fmt.Errorf("pod %s: %w", pod.Name, err)
	}
	return nil
}
