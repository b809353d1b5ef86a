package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestKubeDrain: three pods with a disk each live through a drain of their node: one with an ephemeral claim, one with a
// raw disk, and one whose claim has the access mode ReadWriteOncePod. While a pod ends its disk stays. Its successor on
// another node has the same disk, or a new one for an ephemeral claim. At the end nothing is left.
func TestKubeDrain(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	testbed.RequirePrograms(t, "xfs", "mkfs.xfs")
	c := newProcessCluster(t)
	u := &drainedUser{diskUser{partT{t}, c, nil, nil, "drain"}}
	single, raw := claimSpec(diskClass), claimSpec(diskClass)
	single.AccessModes = []v1.PersistentVolumeAccessMode{v1.ReadWriteOncePod}
	isBlock := v1.PersistentVolumeBlock
	raw.VolumeMode = &isBlock
	u.createClaim("single", single)
	u.createClaim("raw", raw)

	pods := []*v1.Pod{
		u.createPodOf("first-ephemeral", podWith(nodeA, ephemeralVolume)),
		u.createPodOf("first-raw", podWithRaw(nodeA, "raw")),
		u.createPod("first-single", nodeA, "single"),
	}
	ofFirst, raws, ofSingle := u.awaitMount(pods[0], "first-ephemeral-scratch"), u.awaitDevice(pods[1], "raw"), u.awaitMount(pods[2], "single")
	for _, dir := range []string{ofFirst.Mountpoint, ofSingle.Mountpoint} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), []byte("written on "+nodeA), 0o600))
	}
	writeDevice(t, raws, "written on "+nodeA)
	disks := []string{u.claim("first-ephemeral-scratch").Spec.VolumeName, u.claim("raw").Spec.VolumeName, u.claim("single").Spec.VolumeName}

	pv, err := c.Admin.CoreV1().PersistentVolumes().Get(t.Context(), disks[2], metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, single.AccessModes, pv.Spec.AccessModes)

	u.drain(nodeA, pods)
	// A Deployment creates the successors at once. The scheduler waits with a pod for the end of another one that has
	// the claim alone.
	successors := []*v1.Pod{
		u.createPodOf("second-ephemeral", podWith(nodeB, ephemeralVolume)),
		u.createPodOf("second-raw", podWithRaw(nodeB, "raw")),
	}
	ofSecond := u.awaitMount(successors[0], "second-ephemeral-scratch")
	u.await("the disk of an ending pod is attached to no other node", func() string { return u.missingEvent(successors[1], "FailedAttachVolume") })
	u.requireMounted(ofFirst, ofSingle)
	require.Equal(t, "written on "+nodeA, readDevice(t, raws))

	u.end(pods)
	u.deleteClaim("first-ephemeral-scratch") // as the garbage collector does
	successors = append(successors, u.createPod("second-single", nodeB, "single"))
	raws, ofSingle = u.awaitDevice(successors[1], "raw"), u.awaitMount(successors[2], "single")
	require.Equal(t, "written on "+nodeA, readDevice(t, raws))
	text, err := os.ReadFile(filepath.Join(ofSingle.Mountpoint, "file"))
	require.NoError(t, err)
	require.Equal(t, "written on "+nodeA, string(text))
	require.NoFileExists(t, filepath.Join(ofSecond.Mountpoint, "file"))
	require.Equal(t, disks[1:], []string{u.claim("raw").Spec.VolumeName, u.claim("single").Spec.VolumeName})
	u.await("the ephemeral disk is deleted", func() string { return u.leftoverOf(disks[0]) })
	u.await(nodeA+" is drained", func() string { return u.leftOn(nodeA) })

	u.end(successors)
	for _, claim := range []string{"second-ephemeral-scratch", "raw", "single"} {
		u.deleteClaim(claim)
	}
	c.await(t, "nothing is left", c.leftovers)
}

// A drainedUser has pods on a node that is drained.
type drainedUser struct{ diskUser }

// podWith returns a pod on a node with a volume.
func podWith(node string, volume v1.Volume) v1.PodSpec {
	mounts := []v1.VolumeMount{{Name: volume.Name, MountPath: "/" + volume.Name}}
	return v1.PodSpec{NodeName: node, Volumes: []v1.Volume{volume}, Containers: []v1.Container{{Name: "c", Image: "i", VolumeMounts: mounts}}}
}

// ephemeralVolume is a volume of a claim that lives as long as its pod.
var ephemeralVolume = v1.Volume{Name: "scratch", VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{
	VolumeClaimTemplate: &v1.PersistentVolumeClaimTemplate{Spec: claimSpec(diskClass)},
}}}

// podWithRaw returns a pod on a node that has the device of a claim.
func podWithRaw(node, claim string) v1.PodSpec {
	source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
	spec := podWith(node, v1.Volume{Name: claim, VolumeSource: source})
	spec.Containers[0].VolumeMounts, spec.Containers[0].VolumeDevices = nil, []v1.VolumeDevice{{Name: claim, DevicePath: "/dev/" + claim}}
	return spec
}

// drain does what kubectl drain does: it makes a node unschedulable, and evicts its pods, which then end.
func (u *drainedUser) drain(node string, pods []*v1.Pod) {
	u.Helper()
	core := u.cluster.Admin.CoreV1()
	_, err := core.Nodes().Patch(u.Context(), node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), metav1.PatchOptions{})
	require.NoError(u, err)
	for _, pod := range pods {
		// Without a kubelet a pod is Pending, which the eviction deletes at once.
		pod, err := core.Pods(pod.Namespace).Patch(u.Context(), pod.Name, types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status")
		require.NoError(u, err)
		u.await(pod.Name+" is evicted", func() string {
			err := core.Pods(pod.Namespace).EvictV1(u.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name}})
			if apierrors.IsTooManyRequests(err) {
				return err.Error()
			}
			require.NoError(u, err)
			return ""
		})
		ending, err := core.Pods(pod.Namespace).Get(u.Context(), pod.Name, metav1.GetOptions{})
		require.NoError(u, err)
		require.NotNil(u, ending.DeletionTimestamp)
	}
}

// end deletes pods, whose containers have ended.
func (u *drainedUser) end(pods []*v1.Pod) {
	u.Helper()
	for _, pod := range pods {
		u.deletePod(pod)
	}
}

// awaitDevice waits until a pod has the device of a claim, and returns its path.
func (u *drainedUser) awaitDevice(pod *v1.Pod, claim string) (device string) {
	u.Helper()
	u.await(pod.Name+" has "+claim, func() string {
		device = filepath.Join(u.cluster.root(pod.Spec.NodeName), "pods", string(pod.UID), "volumeDevices/kubernetes.io~csi", u.claim(claim).Spec.VolumeName)
		info, err := os.Stat(device)
		if err == nil && info.Mode()&os.ModeDevice == 0 {
			return fmt.Sprintf("%s is %v", device, info.Mode())
		}
		return errorText(err)
	})
	return device
}

// missingEvent returns "" once a pod has an event.
func (u *drainedUser) missingEvent(pod *v1.Pod, reason string) string {
	events, err := u.cluster.Admin.CoreV1().Events(pod.Namespace).List(u.Context(), metav1.ListOptions{})
	if err == nil && slices.ContainsFunc(events.Items, func(e v1.Event) bool { return e.InvolvedObject.UID == pod.UID && e.Reason == reason }) {
		return ""
	}
	return "no event " + reason + errorText(err)
}

// leftOn lists the attachments, mounts and pods' directories that a node still has; "" means none.
func (u *drainedUser) leftOn(node string) string {
	object, err := u.cluster.Admin.CoreV1().Nodes().Get(u.Context(), node, metav1.GetOptions{})
	require.NoError(u, err)
	if n := len(object.Status.VolumesAttached) + len(object.Status.VolumesInUse); n > 0 {
		return fmt.Sprintf("%d volumes are attached or in use", n)
	}
	mounts, err := mountsBelow(u.Context(), u.cluster.root(node), "")
	require.NoError(u, err)
	pods, err := filepath.Glob(filepath.Join(u.cluster.root(node), "pods/*"))
	require.NoError(u, err)
	if len(mounts)+len(pods) > 0 {
		return fmt.Sprintf("mounts %v, pods %v", mounts, pods)
	}
	return ""
}

// writeDevice writes a text at the begin of a device.
func writeDevice(t *testing.T, device, text string) {
	t.Helper()
	f, err := os.OpenFile(device, os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(text)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// readDevice returns the text of writeDevice.
func readDevice(t *testing.T, device string) string {
	t.Helper()
	f, err := os.Open(device)
	require.NoError(t, err)
	defer f.Close()
	text := make([]byte, len("written on "+nodeA))
	_, err = io.ReadFull(f, text)
	require.NoError(t, err)
	return string(text)
}
