package main

import (
	"context"
	"fmt"
	"io"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/internal/cli"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// demonstrate shows the controllers on an API server in memory.
func demonstrate(ctx context.Context, o options, out, log io.Writer) error {
	server := apitest.NewServer(apitest.Config{})
	o.election = false
	p, err := newPlane(o, parts{cluster: server.Connect("controlplane"), announce: func(api.Event) {}}, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	return cli.RunAll(ctx, p.run, func(ctx context.Context) error { return show(ctx, server.Direct(), out) })
}

// show takes the steps of a user, and prints the changes of the claims.
func show(ctx context.Context, cluster api.Cluster, out io.Writer) error {
	claims, pods := cluster.PersistentVolumeClaims(v1.NamespaceDefault), cluster.Pods(v1.NamespaceDefault)
	watcher, err := claims.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	spec := v1.PersistentVolumeClaimSpec{
		AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources:   v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}},
	}
	data := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: spec}
	if _, err := claims.Create(ctx, data, metav1.CreateOptions{}); err != nil {
		return err
	}
	if _, err := pods.Create(ctx, newPod("data", "scratch", spec), metav1.CreateOptions{}); err != nil {
		return err
	}
	steps := []struct {
		text string
		do   func() error
		want []change
	}{
		{"pod web uses claim data, and has an ephemeral volume", func() error { return nil },
			[]change{{watch.Added, "data"}, {watch.Added, "web-scratch"}}},
		{"a user deletes claim data", func() error { return claims.Delete(ctx, "data", metav1.DeleteOptions{}) },
			[]change{{watch.Modified, "data"}}},
		{"a user deletes the pod", func() error { return pods.Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}) },
			[]change{{watch.Deleted, "data"}}},
		{"the garbage collector deletes the claim of the pod", func() error { return claims.Delete(ctx, "web-scratch", metav1.DeleteOptions{}) },
			[]change{{watch.Modified, "web-scratch"}, {watch.Deleted, "web-scratch"}}},
	}
	for _, step := range steps {
		if _, err := fmt.Fprintln(out, step.text); err != nil {
			return err
		}
		if err := step.do(); err != nil {
			return err
		}
		if err := printChanges(ctx, watcher, out, step.want); err != nil {
			return err
		}
	}
	return nil
}

// A change is a change of a claim.
type change struct {
	kind watch.EventType
	name string
}

// meanings are the changes in words.
var meanings = map[watch.EventType]string{
	watch.Added: "exists", watch.Modified: "is in deletion, with its finalizer", watch.Deleted: "has ended",
}

// printChanges prints changes of claims, which come in this order.
func printChanges(ctx context.Context, watcher watch.Interface, out io.Writer, want []change) error {
	for _, c := range want {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event := <-watcher.ResultChan():
			claim, ok := event.Object.(*v1.PersistentVolumeClaim)
			if !ok || event.Type != c.kind || claim.Name != c.name {
				return fmt.Errorf("claim %s: expected %s, got %s of %v", c.name, c.kind, event.Type, event.Object)
			}
			if _, err := fmt.Fprintf(out, "  claim %s %s\n", c.name, meanings[c.kind]); err != nil {
				return err
			}
		}
	}
	return nil
}

// newPod returns the pod web on a node, with a claim and an ephemeral volume.
func newPod(claim, ephemeral string, spec v1.PersistentVolumeClaimSpec) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	pod.Spec.NodeName, pod.Spec.Containers = "node", []v1.Container{{Name: "web", Image: "web"}}
	pod.Spec.Volumes = []v1.Volume{
		{Name: claim, VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}},
		{Name: ephemeral, VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
			VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: spec},
		}}},
	}
	return pod
}
