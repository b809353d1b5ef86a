package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/agents/internal/manifest"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/rightstest"
	"github.com/volumekit/volumekit/recycler"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestKubeRights: the API server denies no call of the program, and the manifest grants no right that the
// program does not exercise. Without any single one of these rights the API server denies it.
func TestKubeRights(t *testing.T) {
	s := clustertest.Start(t)
	program := s.NewAccount("rbac.yaml")
	c := &clustertest.Cluster{T: t, API: kubeclient.New(s.Admin)}
	account := manifest.Read[*v1.ServiceAccount](t, "rbac.yaml")
	o := options{
		controllers: selection{every}, reportUnused: true, election: true, lease: "controlplane", namespace: account.Namespace,
		hostPathRoots: []string{"/data"},
	}
	c.Start(func(ctx context.Context) error { return endRecyclers(ctx, c.API.Pods(v1.NamespaceDefault)) })
	turn := 0
	program.RequireRights(nil, func(missing string) rightstest.Rights {
		leases := s.Admin.CoordinationV1().Leases(o.namespace)
		require.NoError(t, leases.DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{})) // of the last turn
		return program.Exercise(missing, func(ctx context.Context) error {
			connections, err := connect(ctx, program.Config)
			if err != nil {
				return err
			}
			p, err := newPlane(o, connections, io.Discard)
			if err != nil {
				return err
			}
			return p.run(ctx)
		}, func() {
			turn++
			takeSteps(c, turn)
			takeAttachSteps(c, turn)
			if needsRecycling(missing) {
				recycleVolumes(c, fmt.Sprint("web-", turn))
			}
		})
	})
}

// takeSteps makes a volume and a claim for the binder, a pod with ephemeral volumes of which one has the claim
// as that of another owner, and a volume in deletion that others write at the same time. The claim is
// deleted in the next turn.
func takeSteps(c *clustertest.Cluster, turn int) {
	c.Helper()
	name, class := fmt.Sprint("web-", turn), ""
	claims := c.API.PersistentVolumeClaims(v1.NamespaceDefault)
	_ = claims.Delete(c.Context(), fmt.Sprintf("web-%d-other", turn-1), metav1.DeleteOptions{}) // none in the first turn
	pv := newVolume(name + "-other")
	pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	_, err := c.API.PersistentVolumes().Create(c.Context(), pv, metav1.CreateOptions{})
	require.NoError(c, err)
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name + "-other"}, Spec: v1.PersistentVolumeClaimSpec{
		AccessModes: pv.Spec.AccessModes, StorageClassName: &class, Resources: v1.VolumeResourceRequirements{Requests: pv.Spec.Capacity},
	}}
	claim, err = claims.Create(c.Context(), claim, metav1.CreateOptions{})
	require.NoError(c, err)
	pod := newPod("unused", "data", claim.Spec)
	pod.Name, pod.Spec.NodeName = name, ""
	pod.Spec.Volumes[0] = v1.Volume{Name: "other", VolumeSource: pod.Spec.Volumes[1].VolumeSource}
	pod.Spec.Volumes[0], pod.Spec.Volumes[1] = pod.Spec.Volumes[1], pod.Spec.Volumes[0]
	_, err = c.API.Pods(v1.NamespaceDefault).Create(c.Context(), pod, metav1.CreateOptions{})
	require.NoError(c, err)
	for n := range 2 { // each change of the owner repeats the event of the pod
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: types.UID(fmt.Sprint(n))}
		changed, err := claims.Get(c.Context(), claim.Name, metav1.GetOptions{})
		require.NoError(c, err)
		changed.OwnerReferences = []metav1.OwnerReference{owner}
		_, _ = claims.Update(c.Context(), changed, metav1.UpdateOptions{}) // or a conflict with the program
	}
	deleteVolume(c, name)
}

// needsRecycling reports whether recyclers may exercise a right. Otherwise no volume is recycled: a program that ends
// while it creates a pod waits for a pod that comes late.
func needsRecycling(right string) bool {
	return right == "" || slices.ContainsFunc([]string{"pods", "events", "get nodes"}, func(part string) bool { return strings.Contains(right, part) })
}

// recycleVolumes creates two released volumes, of which the second one is a host path.
func recycleVolumes(c *clustertest.Cluster, name string) {
	c.Helper()
	createReleased(c, name+"-export", func(*v1.PersistentVolume) {})
	createReleased(c, name+"-directory", onHostPath("/data/"+name))
}

// endRecyclers is the kubelet of the pods that recycle: they succeed at once, and end when they are deleted. A
// program that ends waits for these pods.
func endRecyclers(ctx context.Context, client api.Pods) error {
	for none := int64(0); ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		pods, err := client.List(ctx, metav1.ListOptions{LabelSelector: recycler.OwnerLabel})
		if err != nil {
			continue
		}
		for i := range pods.Items { // other writers may be faster
			pod := &pods.Items[i]
			if pod.DeletionTimestamp != nil {
				_ = client.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &none})
				continue
			}
			pod.Status.Phase = v1.PodSucceeded
			_, _ = client.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		}
	}
	return nil
}

// deleteVolume deletes a volume whose claim is unknown, and writes it while the program does: the program
// reads the claim, and after a conflict the volume.
func deleteVolume(c *clustertest.Cluster, name string) {
	c.Helper()
	volumes := c.API.PersistentVolumes()
	pv := newVolume(name)
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: v1.NamespaceDefault, Name: "gone", UID: "gone"}
	_, err := volumes.Create(c.Context(), pv, metav1.CreateOptions{})
	require.NoError(c, err)
	require.NoError(c, volumes.Delete(c.Context(), name, metav1.DeleteOptions{}))
	for n := range 20 {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"n":"%d"}}}`, n)
		if _, err := volumes.Patch(c.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			return // the volume is gone
		}
	}
}
