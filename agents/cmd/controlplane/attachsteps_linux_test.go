package main

import (
	"fmt"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/agents/internal/clustertest"
	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/controllers/node"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	attachNode   = "attach-node"
	attachDriver = "driver.example.com"
)

// takeAttachSteps makes a pod with a CSI volume on a node, attaches the volume of the turn before as its
// driver does, and deletes the pods of the turn before that one. The node is out of service, so that its
// report is not waited for. An ended run holds each volume for another node, so that the program reads the
// VolumeAttachment of that node.
func takeAttachSteps(c *clustertest.Cluster, turn int) {
	c.Helper()
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: attachNode, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}, Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: v1.TaintNodeOutOfService, Effect: v1.TaintEffectNoExecute}}}}
	if _, err := c.API.Nodes().Create(c.Context(), object, metav1.CreateOptions{}); err != nil {
		require.True(c, apierrors.IsAlreadyExists(err), err)
	}
	addAttachPod(c, fmt.Sprint("attach-", turn))
	finishAttach(c, fmt.Sprint("attach-", turn-1))
	none := int64(0)
	_ = c.API.Pods(v1.NamespaceDefault).Delete(c.Context(), fmt.Sprint("attach-", turn-2), metav1.DeleteOptions{GracePeriodSeconds: &none})
}

// addAttachPod creates a pod with a claim that is bound to a CSI volume, all of one name.
func addAttachPod(c *clustertest.Cluster, name string) {
	c.Helper()
	class := ""
	pv := newVolume(name)
	pv.Spec.PersistentVolumeSource = v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: attachDriver, VolumeHandle: name}}
	pv.Spec.PersistentVolumeReclaimPolicy = v1.PersistentVolumeReclaimRetain
	pv.Annotations = map[string]string{attach.HolderAnnotation: `{"run": "ended", "nodes": ["other-node"]}`}
	claim, err := c.API.PersistentVolumeClaims(v1.NamespaceDefault).Create(c.Context(), &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.PersistentVolumeClaimSpec{
			AccessModes: pv.Spec.AccessModes, StorageClassName: &class, VolumeName: name,
			Resources: v1.VolumeResourceRequirements{Requests: pv.Spec.Capacity},
		},
	}, metav1.CreateOptions{})
	require.NoError(c, err)
	pv.Spec.ClaimRef = &v1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	_, err = c.API.PersistentVolumes().Create(c.Context(), pv, metav1.CreateOptions{})
	require.NoError(c, err)
	pod := newPod(name, "data", claim.Spec)
	pod.Name, pod.Spec.NodeName = name, attachNode
	pod.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{
		PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name},
	}}}
	_, err = c.API.Pods(v1.NamespaceDefault).Create(c.Context(), pod, metav1.CreateOptions{})
	require.NoError(c, err)
}

// finishAttach answers the VolumeAttachment of a volume, if there is one.
func finishAttach(c *clustertest.Cluster, name string) {
	c.Helper()
	attachments := c.API.VolumeAttachments()
	_, err := attachments.Patch(c.Context(), node.VolumeAttachmentName(attachDriver, name, attachNode), types.MergePatchType,
		[]byte(`{"status":{"attached":true}}`), metav1.PatchOptions{}, "status")
	require.True(c, err == nil || apierrors.IsNotFound(err), err)
}
