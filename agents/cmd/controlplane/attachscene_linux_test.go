package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/volumekit/volumekit/controllers/attach"
	"github.com/volumekit/volumekit/controllers/node"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// attachComparison compares the controllers that attach and detach. The test binds the claims, and answers the
// VolumeAttachments as external-attacher does.
var attachComparison = comparison{
	controllers: []string{attacher},
	arguments:   []string{"--attach-detach-reconcile-sync-period=2s"},
	situations:  attachSituations, interrupted: attachInterruptions, differences: attachDifferences, least: 107,
	prepare: (*scene).createNodes,
	probe:   func(c *scene) { c.disk("pv"); c.run("web", "a", of("pv")) }, sign: "SuccessfulAttachVolume",
	describe: (*scene).describeAttachments,
	// longer than a backoff after some failures
	quiet: 8 * time.Second,
	waits: true,
	// a controller waits a minute for the report of a new node
	age:     time.Minute,
	helpers: []func(*arena, context.Context) error{(*arena).answerAttachments, (*arena).reportNodes},
}

// TestKubeSituationsOfAttachment compares the VolumeAttachments, the reports of nodes, and the events of pods.
func TestKubeSituationsOfAttachment(t *testing.T) { attachComparison.run(t) }

// A csiBehavior holds the answers of the driver of a scene to VolumeAttachments. The zero value attaches and detaches.
type csiBehavior struct{ failsAttach, failsDetach, isSilent bool }

// csiBehaviors holds the behaviors of drivers, by their names.
type csiBehaviors struct{ sync.Map }

func (b *csiBehaviors) of(driver string) csiBehavior {
	behavior, _ := b.Load(driver)
	known, _ := behavior.(csiBehavior)
	return known
}

// driver returns the name of the CSI driver of the scene.
func (c *scene) driver() string { return c.prefix + "driver" }

// drives sets the behavior of the driver.
func (c *scene) drives(b csiBehavior) { c.drivers.Store(c.driver(), b) }

// answerAttachments answers the VolumeAttachments of all drivers as external-attacher does, until ctx ends.
func (a *arena) answerAttachments(ctx context.Context) error {
	for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
		list, err := a.cluster.VolumeAttachments().List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		var answers sync.WaitGroup
		for _, va := range list.Items {
			answers.Go(func() {
				if err := a.answer(ctx, &va); err != nil && ctx.Err() == nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
					a.Errorf("answer %s: %v", va.Name, err)
				}
			})
		}
		answers.Wait()
	}
	return nil
}

// answer takes the next step of a driver for a VolumeAttachment.
func (a *arena) answer(ctx context.Context, va *storagev1.VolumeAttachment) (err error) {
	all, behavior := a.cluster.VolumeAttachments(), a.drivers.of(va.Spec.Attacher)
	finalizer := "external-attacher/" + va.Spec.Attacher
	has := slices.Contains(va.Finalizers, finalizer)
	failed := &storagev1.VolumeError{Message: "the storage is away", Time: metav1.Now()}
	switch {
	case behavior.isSilent:
	case va.DeletionTimestamp != nil && has && !behavior.failsDetach:
		va.Finalizers = slices.DeleteFunc(va.Finalizers, func(f string) bool { return f == finalizer })
		_, err = all.Update(ctx, va, metav1.UpdateOptions{})
	case va.DeletionTimestamp != nil && has && va.Status.DetachError == nil:
		va.Status.DetachError = failed
		_, err = all.UpdateStatus(ctx, va, metav1.UpdateOptions{})
	case va.DeletionTimestamp != nil || va.Status.Attached && has:
	case !has:
		va.Finalizers = append(va.Finalizers, finalizer)
		_, err = all.Update(ctx, va, metav1.UpdateOptions{})
	case !behavior.failsAttach:
		va.Status = storagev1.VolumeAttachmentStatus{Attached: true}
		_, err = all.UpdateStatus(ctx, va, metav1.UpdateOptions{})
	case va.Status.AttachError == nil:
		va.Status.AttachError = failed
		_, err = all.UpdateStatus(ctx, va, metav1.UpdateOptions{})
	}
	return err
}

// reportNodes renews the status of the nodes as kubelets do, until ctx ends.
func (a *arena) reportNodes(ctx context.Context) error {
	for ; ctx.Err() == nil; time.Sleep(6 * time.Second) {
		list, err := a.cluster.Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for _, object := range list.Items {
			if len(object.Status.Conditions) == 0 || object.Status.Conditions[0].Status != v1.ConditionTrue {
				continue
			}
			patch := fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":"True","lastHeartbeatTime":%q}]}}`, time.Now().UTC().Format(time.RFC3339))
			_, _ = a.cluster.Nodes().Patch(ctx, object.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status") // or the node is gone
		}
	}
	return nil
}

// describeAttachments returns the VolumeAttachments, the reports of the nodes, and the events of the pods.
func (c *scene) describeAttachments() (lines []string) {
	now := c.snapshot()
	for _, va := range now.attachments {
		if strings.HasPrefix(va.Spec.NodeName, c.prefix) {
			lines = append(lines, fmt.Sprintf("volume %s on %s: %s attached=%t by %s, %s", *va.Spec.Source.PersistentVolumeName,
				va.Spec.NodeName, phaseOf(va.DeletionTimestamp), va.Status.Attached, va.Spec.Attacher, c.nameKind(&va)))
		}
	}
	slices.Sort(lines)
	for _, object := range now.nodes {
		if strings.HasPrefix(object.Name, c.prefix) {
			lines = append(lines, fmt.Sprintf("node %s: attached %v, in use %v", object.Name, reportsOf(&object), object.Status.VolumesInUse))
		}
	}
	for _, line := range c.events() {
		if !strings.Contains(line, c.prefix) { // of pods, whose names have no prefix
			lines = append(lines, line)
		}
	}
	return lines
}

// reportsOf returns the volumes that a node reports as attached, sorted.
func reportsOf(object *v1.Node) (attached []string) {
	for _, entry := range object.Status.VolumesAttached {
		attached = append(attached, string(entry.Name)+entry.DevicePath)
	}
	slices.Sort(attached)
	return attached
}

// nameKind returns whether a VolumeAttachment has the name of a controller's.
func (c *scene) nameKind(va *storagev1.VolumeAttachment) string {
	handle := *va.Spec.Source.PersistentVolumeName
	for _, pv := range c.volumes() {
		if pv.Name == handle && pv.Spec.CSI != nil {
			handle = pv.Spec.CSI.VolumeHandle
		}
	}
	if va.Name == node.VolumeAttachmentName(va.Spec.Attacher, handle, types.NodeName(va.Spec.NodeName)) {
		return "own name"
	}
	return "foreign name"
}

// createNodes creates the nodes a and b, which are ready.
func (c *scene) createNodes() {
	c.node("a")
	c.node("b")
}

// node creates a node that is ready, after changes.
func (c *scene) node(name string, changes ...func(*v1.Node)) {
	object := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: c.prefix + name, Annotations: map[string]string{attach.ManagedAnnotation: "true"},
	}, Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady"}}}}
	for _, change := range changes {
		change(object)
	}
	c.must(c.cluster.Nodes().Create(c.ctx, object, metav1.CreateOptions{}))
}

// editNode changes a node and then its status until no other writer interferes.
func (c *scene) editNode(name string, change func(*v1.Node)) {
	nodes := c.cluster.Nodes()
	get := func() (*v1.Node, error) { return nodes.Get(c.ctx, c.prefix+name, metav1.GetOptions{}) }
	edit(c, get, func(object *v1.Node) error {
		change(object)
		_, err := c.clientset.CoreV1().Nodes().Update(c.ctx, object, metav1.UpdateOptions{})
		return err
	})
	edit(c, get, func(object *v1.Node) error {
		change(object)
		_, err := c.clientset.CoreV1().Nodes().UpdateStatus(c.ctx, object, metav1.UpdateOptions{})
		return err
	})
}

func (c *scene) deleteNode(name string) {
	c.must(nil, c.clientset.CoreV1().Nodes().Delete(c.ctx, c.prefix+name, metav1.DeleteOptions{}))
}

// uniqueName returns the unique name of a volume with its default handle.
func (c *scene) uniqueName(volume string) v1.UniqueVolumeName {
	return v1.UniqueVolumeName("kubernetes.io/csi/" + c.driver() + "^" + c.prefix + volume)
}

// uses sets the volumes that a node reports as in use.
func (c *scene) uses(name string, volumes ...string) {
	c.editNode(name, func(object *v1.Node) {
		object.Status.VolumesInUse = nil
		for _, volume := range volumes {
			object.Status.VolumesInUse = append(object.Status.VolumesInUse, c.uniqueName(volume))
		}
	})
}

// reports sets the volumes that a node reports as attached.
func (c *scene) reports(name string, volumes ...string) {
	c.editNode(name, func(object *v1.Node) {
		object.Status.VolumesAttached = nil
		for _, volume := range volumes {
			object.Status.VolumesAttached = append(object.Status.VolumesAttached, v1.AttachedVolume{Name: c.uniqueName(volume)})
		}
	})
}

// disk creates a CSI volume after changes, and a claim of the same name that is bound to it.
func (c *scene) disk(name string, changes ...func(*v1.PersistentVolume)) {
	c.claim(name, names(c.prefix+name))
	c.volume(name, append([]volumeChange{c.refersTo(name, c.uidOf(name)), c.ofDriver}, changes...)...)
	c.bind(name)
}

// ofDriver makes a volume one of the driver of the scene.
func (c *scene) ofDriver(pv *v1.PersistentVolume) {
	pv.Spec.CSI = &v1.CSIPersistentVolumeSource{Driver: c.driver(), VolumeHandle: pv.Name}
}

// bind reports a claim and its volume as bound.
func (c *scene) bind(name string) {
	claims, volumes := c.cluster.PersistentVolumeClaims(c.namespace), c.cluster.PersistentVolumes()
	edit(c, func() (*v1.PersistentVolumeClaim, error) { return claims.Get(c.ctx, name, metav1.GetOptions{}) }, func(claim *v1.PersistentVolumeClaim) error {
		claim.Status.Phase, claim.Status.Capacity, claim.Status.AccessModes = v1.ClaimBound, sized("5Gi"), claim.Spec.AccessModes
		_, err := claims.UpdateStatus(c.ctx, claim, metav1.UpdateOptions{})
		return err
	})
	edit(c, func() (*v1.PersistentVolume, error) { return volumes.Get(c.ctx, c.prefix+name, metav1.GetOptions{}) }, func(pv *v1.PersistentVolume) error {
		pv.Status.Phase = v1.VolumeBound
		_, err := volumes.UpdateStatus(c.ctx, pv, metav1.UpdateOptions{})
		return err
	})
}

// run creates a pod on a node, after changes, with claims.
func (c *scene) run(name, onNode string, claims []string, changes ...func(*v1.Pod)) {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
	pod.Spec.Containers = []v1.Container{{Name: "web", Image: "web"}}
	if onNode != "" {
		pod.Spec.NodeName = c.prefix + onNode
	}
	for i, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, v1.Volume{Name: fmt.Sprint("v", i), VolumeSource: v1.VolumeSource{
			PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	for _, change := range changes {
		change(pod)
	}
	c.must(c.cluster.Pods(c.namespace).Create(c.ctx, pod, metav1.CreateOptions{}))
}

// editPod changes the metadata and the status of a pod until no other writer interferes.
func (c *scene) editPod(name string, change func(*v1.Pod)) {
	pods := c.clientset.CoreV1().Pods(c.namespace)
	get := func() (*v1.Pod, error) { return pods.Get(c.ctx, name, metav1.GetOptions{}) }
	edit(c, get, func(pod *v1.Pod) error {
		change(pod)
		_, err := pods.UpdateStatus(c.ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

// touchPod changes the status of a pod, as kubelets do: kube-controller-manager handles the pod again.
func (c *scene) touchPod(name string) {
	c.editPod(name, func(pod *v1.Pod) { pod.Status.Message = "touched" })
}

// terminatePod deletes a pod with a pause, which ends only with a kubelet.
func (c *scene) terminatePod(name string) {
	c.must(nil, c.cluster.Pods(c.namespace).Delete(c.ctx, name, metav1.DeleteOptions{}))
}

// csiDriver creates the CSIDriver object.
func (c *scene) csiDriver(attachRequired bool) {
	c.must(c.clientset.StorageV1().CSIDrivers().Create(c.ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: c.driver()}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attachRequired},
	}, metav1.CreateOptions{}))
}

// csiNode creates the CSINode object of a node, with the number of volumes that its driver permits.
func (c *scene) csiNode(name string, count int32) {
	c.must(c.clientset.StorageV1().CSINodes().Create(c.ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: c.prefix + name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{
			Name: c.driver(), NodeID: name, Allocatable: &storagev1.VolumeNodeResources{Count: &count},
		}}},
	}, metav1.CreateOptions{}))
}

// attachment creates the VolumeAttachment of a volume on a node, after changes.
func (c *scene) attachment(volume, onNode string, changes ...func(*storagev1.VolumeAttachment)) {
	name := c.prefix + volume
	va := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: c.attachmentName(volume, onNode)},
		Spec: storagev1.VolumeAttachmentSpec{
			Attacher: c.driver(), NodeName: c.prefix + onNode, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
		},
	}
	for _, change := range changes {
		change(va)
	}
	c.must(c.cluster.VolumeAttachments().Create(c.ctx, va, metav1.CreateOptions{}))
}

// attachmentName returns the name of a controller for the VolumeAttachment of a volume on a node.
func (c *scene) attachmentName(volume, onNode string) string {
	return node.VolumeAttachmentName(c.driver(), c.prefix+volume, types.NodeName(c.prefix+onNode))
}

// loseAttachment deletes a VolumeAttachment by force.
func (c *scene) loseAttachment(volume, onNode string) {
	all, name := c.cluster.VolumeAttachments(), c.attachmentName(volume, onNode)
	c.must(c.cluster.VolumeAttachments().Patch(c.ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	c.must(nil, all.Delete(c.ctx, name, metav1.DeleteOptions{}))
}

// endAttachment deletes a VolumeAttachment as another program does.
func (c *scene) endAttachment(volume, onNode string) {
	c.must(nil, c.cluster.VolumeAttachments().Delete(c.ctx, c.attachmentName(volume, onNode), metav1.DeleteOptions{}))
}

// own makes a pod the owner of a claim.
func (c *scene) own(claim, pod string) {
	owner, err := c.cluster.Pods(c.namespace).Get(c.ctx, pod, metav1.GetOptions{})
	c.must(nil, err)
	c.editClaim(claim, func(claim *v1.PersistentVolumeClaim) {
		claim.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, v1.SchemeGroupVersion.WithKind("Pod"))}
	})
}

// wait waits for kube-controller-manager, which compares its lists once a minute, and pauses after failures.
func (c *scene) wait() {
	select {
	case <-c.ctx.Done():
	case <-time.After(75 * time.Second):
	}
}
