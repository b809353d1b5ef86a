package main

import (
	"context"
	"fmt"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// namespace has the objects of the benchmark. Each API server creates it.
const namespace = v1.NamespaceDefault

// volumesOfPod is the number of volumes of newPod.
const volumesOfPod = 5

// newPod returns a pod with volumes of five kinds, whose objects have its name.
func newPod(name string) *v1.Pod {
	itself := v1.LocalObjectReference{Name: name}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}},
		Spec:       v1.PodSpec{ServiceAccountName: "default", Containers: []v1.Container{{Name: "c", Image: "registry.example/app:1.2.3"}}},
	}
	for i, source := range [volumesOfPod]v1.VolumeSource{
		{EmptyDir: &v1.EmptyDirVolumeSource{}},
		{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: itself}},
		{Secret: &v1.SecretVolumeSource{SecretName: name}},
		{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}},
		{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}},
	} {
		name := fmt.Sprint("v", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	return pod
}

// createAccount creates the service account of all pods.
func createAccount(ctx context.Context, cluster api.Cluster) error {
	_, err := cluster.ServiceAccounts(namespace).Create(ctx, &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	return err
}

// createContent creates the ConfigMap and the Secret of a pod.
func createContent(ctx context.Context, cluster api.Cluster, name string) error {
	meta, options := metav1.ObjectMeta{Name: name}, metav1.CreateOptions{}
	if _, err := cluster.ConfigMaps(namespace).Create(ctx, &v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"a": "1", "b": "2"}}, options); err != nil {
		return err
	}
	_, err := cluster.Secrets(namespace).Create(ctx, &v1.Secret{ObjectMeta: meta, Data: map[string][]byte{"key": []byte("value")}}, options)
	return err
}

// createClaim creates the claim of a pod, and a volume at a path of a node, and binds them as the
// binder does.
func createClaim(ctx context.Context, cluster api.Cluster, name, node, path string) error {
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes, class := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, ""
	claim, err := cluster.PersistentVolumeClaims(namespace).Create(ctx, &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: &class, VolumeName: name,
			Resources: v1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = cluster.PersistentVolumes().Create(ctx, &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{AccessModes: modes, Capacity: size,
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: path}},
			ClaimRef:               &v1.ObjectReference{Namespace: namespace, Name: name, UID: claim.UID},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{node}}}}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size}
	_, err = cluster.PersistentVolumeClaims(namespace).UpdateStatus(ctx, claim, metav1.UpdateOptions{})
	return err
}

func benchSize() v1.ResourceList {
	return v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
}

// until waits until a condition holds.
func until(ctx context.Context, what string, holds func() (bool, error)) error {
	for {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}
