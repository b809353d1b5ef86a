package main

import (
	"context"
	"fmt"
	"io"

	"github.com/volumekit/volumekit/agents/internal/cli"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
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
	steps := []struct {
		text string
		do   func() error
		want []string
	}{
		{"a user creates a volume and claim data", func() error { return createPair(ctx, cluster, spec) },
			[]string{"claim data exists", "claim data is bound to volume disk"}},
		{"pod web uses claim data, and has an ephemeral volume", func() error {
			_, err := pods.Create(ctx, newPod("data", "scratch", spec), metav1.CreateOptions{})
			return err
		}, []string{"claim web-scratch exists"}},
		{"a user deletes claim data", func() error { return claims.Delete(ctx, "data", metav1.DeleteOptions{}) },
			[]string{"claim data is in deletion, with its finalizer"}},
		{"a user deletes the pod", func() error { return pods.Delete(ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: new(int64)}) },
			[]string{"claim data has ended"}},
		{"the garbage collector deletes the claim of the pod", func() error { return claims.Delete(ctx, "web-scratch", metav1.DeleteOptions{}) },
			[]string{"claim web-scratch is in deletion, with its finalizer", "claim web-scratch has ended"}},
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

// createPair creates a volume and a claim of its size.
func createPair(ctx context.Context, cluster api.Cluster, spec v1.PersistentVolumeClaimSpec) error {
	_, err := cluster.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: v1.PersistentVolumeSpec{
			AccessModes: spec.AccessModes, Capacity: spec.Resources.Requests,
			PersistentVolumeReclaimPolicy: v1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        v1.PersistentVolumeSource{NFS: &v1.NFSVolumeSource{Server: "nas", Path: "/"}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: spec}
	_, err = cluster.PersistentVolumeClaims(v1.NamespaceDefault).Create(ctx, claim, metav1.CreateOptions{})
	return err
}

// printChanges prints the next changes of claims, which have to be those expected, each once.
func printChanges(ctx context.Context, watcher watch.Interface, out io.Writer, want []string) error {
	last := ""
	for len(want) > 0 {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event := <-watcher.ResultChan():
			line, err := textOf(event)
			if err != nil {
				return err
			}
			if line == "" || line == last {
				continue
			}
			if last = line; line != want[0] {
				return fmt.Errorf("expected: %s, got: %s", want[0], line)
			}
			if _, err := fmt.Fprintln(out, " ", line); err != nil {
				return err
			}
			want = want[1:]
		}
	}
	return nil
}

// textOf returns a change of a claim in words, "" for a step between two that a user sees.
func textOf(event watch.Event) (string, error) {
	claim, ok := event.Object.(*v1.PersistentVolumeClaim)
	if !ok {
		return "", fmt.Errorf("the watch failed: %v", event.Object)
	}
	switch {
	case event.Type == watch.Added:
		return "claim " + claim.Name + " exists", nil
	case event.Type == watch.Deleted:
		return "claim " + claim.Name + " has ended", nil
	case claim.DeletionTimestamp != nil:
		return "claim " + claim.Name + " is in deletion, with its finalizer", nil
	case claim.Status.Phase == v1.ClaimBound:
		return "claim " + claim.Name + " is bound to volume " + claim.Spec.VolumeName, nil
	}
	return "", nil
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
