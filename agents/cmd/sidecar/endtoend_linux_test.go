package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){
		"sidecar": func(mounttest.Process) { main() },
	})
}

// TestKubeEndToEnd: on a real API server the control plane, two sidecars, the drivers and the agents of two
// nodes, each in a process of its own, provision a disk for a claim, attach, stage and publish it, expand it
// in use, move it with its pod to the other node, detach and delete it. Beside it the pod has a directory of
// the local driver. Each process is killed once; with VOLUMEKIT_LONG 100 times one of them, while four
// users work. Whenever the test looks, no disk is mounted on a node to which it is not attached; the driver refuses no
// attach, as of a disk that another node has, and no detach, as of a disk in use. The mounts of a pod stay the same ones
// during an expansion. At the end no object, mount, loop device, directory or file of a volume is left.
func TestKubeEndToEnd(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	testbed.RequirePrograms(t, "xfs", "mkfs.xfs", "xfs_growfs")
	c := newProcessCluster(t)
	k := &killer{cluster: c, random: c.newRandom(0), kills: len(c.processes), pause: time.Second, sparesAttached: true}
	users := 1
	if testbed.Long() {
		k.kills, k.sparesAttached, users = 100, false, 4
	}
	c.useDisks(users, k)
	if !t.Failed() {
		c.await(t, "nothing is left", c.leftovers)
	}
}

// newRandom returns random numbers, different ones for each stream.
func (c *processCluster) newRandom(stream int) *rand.Rand {
	return rand.New(rand.NewPCG(c.seed, uint64(stream)))
}

// useDisks runs a number of users until the killer has done its work.
func (c *processCluster) useDisks(users int, k *killer) {
	ctx, cancel := context.WithCancel(context.Background())
	var killing, using sync.WaitGroup
	var areKilled atomic.Bool
	killing.Go(func() {
		k.run(ctx)
		areKilled.Store(true)
	})
	for n := range users {
		using.Go(func() {
			random := c.newRandom(1 + n)
			for round := 0; round == 0 || !areKilled.Load() && !c.Failed(); round++ {
				u := diskUser{partT{c.T}, c, k, random, fmt.Sprintf("%d-%d", n, round)}
				u.useDisk([]string{diskClass, lateDiskClass}[round%2])
			}
		})
	}
	using.Wait()
	cancel()
	killing.Wait()
}

// A partT is the T of a goroutine of a test: FailNow ends the goroutine.
type partT struct{ *testing.T }

// FailNow implements require.TestingT.
func (t partT) FailNow() {
	t.Fail()
	runtime.Goexit()
}

// A diskUser has a disk for two pods, one after the other.
type diskUser struct {
	partT
	cluster *processCluster
	killer  *killer
	random  *rand.Rand
	name    string // of the pods and claims, with a prefix
}

const firstSize, secondSize = 320 << 20, 640 << 20 // mkfs.xfs needs 300 MiB

// useDisk takes the steps of a user, from the creation of a claim to the end of its disk.
func (u *diskUser) useDisk(class string) {
	u.Helper()
	data, scratch := "data-"+u.name, "scratch-"+u.name
	u.createClaim(data, claimSpec(class))
	u.createClaim(scratch, claimSpec(localClass))
	time.Sleep(time.Duration(u.random.Int64N(int64(200 * time.Millisecond)))) // the control plane may be killed
	u.killer.attached.RLock()
	defer u.killer.attached.RUnlock()
	first := u.createPod("first-"+u.name, nodeA, data, scratch)
	onDisk, onDirectory := u.awaitMount(first, data), u.awaitMount(first, scratch)
	for _, m := range []mount.Info{onDisk, onDirectory} {
		require.NoError(u, os.WriteFile(filepath.Join(m.Mountpoint, "file"), []byte(first.Name), 0o600))
	}
	disk := u.claim(data).Spec.VolumeName
	u.expand(data, disk, onDisk)
	u.requireMounted(onDisk, onDirectory)

	var second *v1.Pod
	u.inAnyOrder(
		func() { u.deletePod(first) }, func() { u.deleteClaim(scratch) },
		func() { second = u.createPod("second-"+u.name, nodeB, data) })
	onDisk = u.awaitMount(second, data)
	written, err := os.ReadFile(filepath.Join(onDisk.Mountpoint, "file"))
	require.NoError(u, err)
	require.Equal(u, first.Name, string(written))

	u.inAnyOrder(func() { u.deletePod(second) }, func() { u.deleteClaim(data) })
	u.await(data+" is deleted", func() string { return u.leftoverOf(disk) })
}

func (u *diskUser) await(what string, missing func() string) {
	u.Helper()
	u.cluster.await(u, what, missing)
}

// inAnyOrder calls functions in a random order.
func (u *diskUser) inAnyOrder(calls ...func()) {
	for _, i := range u.random.Perm(len(calls)) {
		calls[i]()
	}
}

// claimSpec returns the specification of a claim of a class.
func claimSpec(class string) v1.PersistentVolumeClaimSpec {
	return v1.PersistentVolumeClaimSpec{
		StorageClassName: &class, AccessModes: []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce},
		Resources: v1.VolumeResourceRequirements{Requests: v1.ResourceList{v1.ResourceStorage: *resource.NewQuantity(firstSize, resource.BinarySI)}},
	}
}

// createClaim creates a claim.
func (u *diskUser) createClaim(name string, spec v1.PersistentVolumeClaimSpec) {
	u.Helper()
	claim := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	_, err := u.cluster.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Create(u.Context(), claim, metav1.CreateOptions{})
	require.NoError(u, err)
}

// claim returns a claim.
func (u *diskUser) claim(name string) *v1.PersistentVolumeClaim {
	u.Helper()
	claim, err := u.cluster.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Get(u.Context(), name, metav1.GetOptions{})
	require.NoError(u, err)
	return claim
}

func (u *diskUser) deleteClaim(name string) {
	u.Helper()
	require.NoError(u, u.cluster.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Delete(u.Context(), name, metav1.DeleteOptions{}))
}

// createPod creates a pod on a node, with a volume for each claim.
func (u *diskUser) createPod(name, node string, claims ...string) *v1.Pod {
	u.Helper()
	spec := v1.PodSpec{NodeName: node, Containers: []v1.Container{{Name: "c", Image: "i"}}}
	for _, claim := range claims {
		source := v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}
		spec.Volumes = append(spec.Volumes, v1.Volume{Name: claim, VolumeSource: source})
		spec.Containers[0].VolumeMounts = append(spec.Containers[0].VolumeMounts, v1.VolumeMount{Name: claim, MountPath: "/" + claim})
	}
	return u.createPodOf(name, spec)
}

// createPodOf creates a pod.
func (u *diskUser) createPodOf(name string, spec v1.PodSpec) *v1.Pod {
	u.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	pod, err := u.cluster.Admin.CoreV1().Pods(v1.NamespaceDefault).Create(u.Context(), pod, metav1.CreateOptions{})
	require.NoError(u, err)
	return pod
}

// deletePod deletes a pod, whose containers have ended.
func (u *diskUser) deletePod(pod *v1.Pod) {
	u.Helper()
	require.NoError(u, u.cluster.Admin.CoreV1().Pods(v1.NamespaceDefault).Delete(u.Context(), pod.Name, *metav1.NewDeleteOptions(0)))
}

// awaitMount waits until a pod has the volume of a claim, and returns the mount.
func (u *diskUser) awaitMount(pod *v1.Pod, claim string) (at mount.Info) {
	u.Helper()
	u.await(pod.Name+" has "+claim, func() string {
		volume := u.claim(claim).Spec.VolumeName
		if volume == "" {
			u.selectNode(u.claim(claim), pod.Spec.NodeName)
			return "the claim has no volume"
		}
		path := filepath.Join(u.cluster.root(pod.Spec.NodeName), "pods", string(pod.UID), "volumes/kubernetes.io~csi", volume, "mount")
		found := u.mountsAt(path)
		if len(found) == 0 {
			return "nothing is mounted at " + path
		}
		at = found[0]
		return ""
	})
	return at
}

// selectNode selects the node for a claim of a late class, as the scheduler does: also again after the
// provisioner has rejected the node, where the driver is not registered for a moment after it was killed.
func (u *diskUser) selectNode(claim *v1.PersistentVolumeClaim, node string) {
	u.Helper()
	if *claim.Spec.StorageClassName == diskClass || claim.Annotations[provision.SelectedNodeAnnotation] != "" {
		return
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, provision.SelectedNodeAnnotation, node)
	_, err := u.cluster.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Patch(u.Context(), claim.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(u, err)
}

// mountsAt returns the mounts at a path.
func (u *diskUser) mountsAt(path string) (found []mount.Info) {
	u.Helper()
	table, err := mount.New(mount.Config{}).List(u.Context())
	require.NoError(u, err)
	for _, m := range table {
		if m.Mountpoint == path {
			found = append(found, m)
		}
	}
	return found
}

// requireMounted requires that mounts are the same ones as before, and that nothing is mounted over them.
func (u *diskUser) requireMounted(mounts ...mount.Info) {
	u.Helper()
	for _, m := range mounts {
		require.Equal(u, []mount.Info{m}, u.mountsAt(m.Mountpoint))
	}
}

// expand requests a larger disk, and waits until the claim has the size, which the disk and its file system have
// before.
func (u *diskUser) expand(claim, disk string, at mount.Info) {
	u.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"resources":{"requests":{"storage":"%d"}}}}`, secondSize)
	_, err := u.cluster.Admin.CoreV1().PersistentVolumeClaims(v1.NamespaceDefault).Patch(u.Context(), claim, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(u, err)
	u.await(claim+" is expanded", func() string {
		status := u.claim(claim).Status
		if status.Capacity.Storage().Value() != secondSize {
			return fmt.Sprintf("%+v", status)
		}
		size, err := u.cluster.imageSize(disk)
		require.NoError(u, err)
		require.EqualValues(u, secondSize, size, "the status has a size before the disk")
		size, err = fileSystemSize(at.Mountpoint)
		require.NoError(u, err)
		require.Greater(u, size, int64(firstSize), "the status has a size before the file system")
		if len(status.Conditions)+len(status.AllocatedResourceStatuses) > 0 {
			return fmt.Sprintf("%+v", status)
		}
		return ""
	})
}

// leftoverOf returns the first remnant of a disk, or "".
func (u *diskUser) leftoverOf(disk string) string {
	u.Helper()
	volumes, err := u.cluster.Admin.CoreV1().PersistentVolumes().List(u.Context(), metav1.ListOptions{})
	require.NoError(u, err)
	for _, pv := range volumes.Items {
		if pv.Name == disk {
			return fmt.Sprintf("the volume %s is %s", disk, pv.Status.Phase)
		}
	}
	mounts, err := mountsBelow(u.Context(), u.cluster.dir, disk)
	require.NoError(u, err)
	require.Empty(u, mounts, "the volume is deleted")
	require.NoDirExists(u, filepath.Join(u.cluster.disks(), disk))
	return ""
}
