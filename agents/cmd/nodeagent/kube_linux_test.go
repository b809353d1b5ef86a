package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/agents/internal/screen"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const nodeName = "node-1"

// A cluster is a real API server with the manifests of this directory. It has the pods of one node,
// and no Node.
type cluster struct {
	*clustertest.Server
	mode    mode
	account *clustertest.Account // of the agent
	disks   string
}

// A mode is the set of flags that need manifests of their own.
type mode struct{ register, csi bool }

// newCluster returns a cluster for an agent with all flags.
func newCluster(t *testing.T) *cluster { return newClusterOf(t, mode{register: true, csi: true}) }

// newClusterOf returns a cluster with the manifests of a mode.
func newClusterOf(t *testing.T, m mode) *cluster {
	t.Helper()
	manifests := []string{"rbac.yaml"}
	if m.register {
		manifests = append(manifests, "rbac-register.yaml")
	}
	if m.csi {
		manifests = append(manifests, "rbac-csi.yaml")
	}
	server := clustertest.Start(t)
	return &cluster{server, m, server.NewAccount(manifests...), testbed.Dir(t)}
}

// createPods creates the pod "web", whose volumes are of each kind, with their objects, and the pod
// "broken", whose ConfigMap is missing.
func (c *cluster) createPods() {
	c.Helper()
	require.NoError(c, os.Mkdir(filepath.Join(c.disks, "data"), 0o755))
	meta := metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "web"}
	for _, object := range []runtime.Object{
		&v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: "default"}},
		&v1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"color": "blue"}},
		&v1.Secret{ObjectMeta: meta, StringData: map[string]string{"key": "value"}},
	} {
		require.NoError(c, c.Create(object))
	}
	c.bind("web", v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: filepath.Join(c.disks, "data")}})
	require.NoError(c, c.Create(newPod("web", webVolumes()...)))
	require.NoError(c, c.Create(newPod("broken", v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "missing"}}})))
}

// bind creates a claim with a volume that the node reaches, and binds them as the binder does.
func (c *cluster) bind(name string, source v1.PersistentVolumeSource) {
	c.Helper()
	size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
	modes, class := []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}, ""
	claims := c.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault)
	claim, err := claims.Create(c.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{AccessModes: modes, StorageClassName: &class, VolumeName: name,
			Resources: v1.VolumeResourceRequirements{Requests: size}},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	_, err = c.Admin.CoreV1().PersistentVolumes().Create(c.Context(), &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeSpec{AccessModes: modes, Capacity: size,
			PersistentVolumeSource: source,
			ClaimRef:               &v1.ObjectReference{Namespace: v1.NamespaceDefault, Name: name, UID: claim.UID},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelHostname, Operator: v1.NodeSelectorOpIn, Values: []string{nodeName}}}}}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	claim.Status = v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound, AccessModes: modes, Capacity: size}
	_, err = claims.UpdateStatus(c.Context(), claim, metav1.UpdateOptions{})
	require.NoError(c, err)
}

func webVolumes() []v1.VolumeSource {
	web := v1.LocalObjectReference{Name: "web"}
	return []v1.VolumeSource{
		{EmptyDir: &v1.EmptyDirVolumeSource{}},
		{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: web}},
		{Secret: &v1.SecretVolumeSource{SecretName: web.Name}},
		{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: web.Name}},
		{Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
			{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}}}}},
	}
}

// newPod returns a pod of the node whose container uses volumes v0, v1 and so on.
func newPod(name string, volumes ...v1.VolumeSource) *v1.Pod {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceDefault, Name: name},
		Spec:       v1.PodSpec{NodeName: nodeName, ServiceAccountName: "default", Containers: []v1.Container{{Name: "c", Image: "i"}}},
	}
	for i, source := range volumes {
		name := fmt.Sprint("v", i)
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: name, VolumeSource: source})
		pod.Spec.Containers[0].VolumeMounts = append(pod.Spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: name, MountPath: "/" + name})
	}
	return pod
}

// runAgent runs an agent until missing returns nothing, or the agent ends by itself.
func (c *cluster) runAgent(mounter mount.Interface, root string, missing func(*agent) []string) error {
	c.Helper()
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	p, err := connect(ctx, c.account.Config, nodeName)
	require.NoError(c, err)
	p.mounter = mounter
	a, err := newAgent(ctx, options{node: nodeName, root: root, disks: []string{c.disks}, register: c.mode.register, csi: c.mode.csi}, io.Discard, p)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- errors.Join(a.run(ctx), a.lock.Close()) }()
	for deadline := time.Now().Add(time.Minute); ; {
		left := missing(a)
		if len(left) == 0 {
			break
		}
		require.True(c, time.Now().Before(deadline), "the agent has not done in time: %q, %v", left, screen.WithCauses(errors.New("its volumes"), a.manager.State()))
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Millisecond):
		}
	}
	cancel()
	return <-ended
}
