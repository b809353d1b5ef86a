package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mountutils"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	peer "k8s.io/mount-utils"
)

// measureManager has the manager bring up and take down pods with three volumes each
// that are mounted or written for real, in a namespace with many other mounts, and
// prints how many pods a second that is, and the processor time of a volume; then the
// same with k8s.io/mount-utils behind the same plugins. That gets fewer pods.
func measureManager(ctx context.Context, dir string) error {
	const foreign, volumes = 10_000, 3
	end, err := crowd(ctx, filepath.Join(dir, "foreign"), foreign)
	if err != nil {
		return errors.Join(err, end())
	}
	fmt.Printf("| pods with %d volumes up and down, %d foreign mounts | pods | up, pods/s | down, pods/s | ms of CPU per volume |\n", volumes, foreign)
	fmt.Println("|---|--:|--:|--:|--:|")
	var cpu []float64
	for _, side := range []struct {
		name    string
		mounter mount.Interface
		pods    int
	}{
		{"ours", mount.New(mount.Config{}), 500},
		{"k8s.io/mount-utils", mountutils.From(peer.New("")), 10},
	} {
		n, err := newPodNode(filepath.Join(dir, "node-"+strconv.Itoa(side.pods)), side.mounter)
		if err != nil {
			return errors.Join(err, end())
		}
		r, err := n.churn(ctx, side.pods)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", side.name, err), end())
		}
		perVolume := r.cpu / float64(side.pods*volumes)
		cpu = append(cpu, perVolume)
		fmt.Printf("| %s | %d | %.1f | %.1f | %.2f |\n", side.name, side.pods, float64(side.pods)/r.up.Seconds(), float64(side.pods)/r.down.Seconds(), perVolume)
	}
	fmt.Printf("\nThe peer takes %.0f× the processor time.\n", cpu[1]/cpu[0])
	return end()
}

// crowd makes mounts that are nobody's business.
func crowd(ctx context.Context, dir string, n int) (end func() error, err error) {
	m := mount.New(mount.Config{})
	end = func() error { return m.UnmountTree(context.WithoutCancel(ctx), dir) }
	if err := os.Mkdir(dir, 0o755); err != nil {
		return func() error { return nil }, err
	}
	if err := m.Mount(ctx, mount.Request{Source: "bench", Target: dir, FSType: "tmpfs"}); err != nil {
		return func() error { return nil }, err
	}
	for i := range n {
		target := filepath.Join(dir, strconv.Itoa(i))
		err := os.Mkdir(target, 0o755)
		if err == nil {
			err = m.Mount(ctx, mount.Request{Source: filepath.Join(dir, "0"), Target: target})
		}
		if err != nil {
			return end, err
		}
	}
	return end, nil
}

// A podNode is a node with a manager.
type podNode struct {
	source  *manager.MemorySource
	manager *manager.Manager
}

func newPodNode(dir string, mounter mount.Interface) (*podNode, error) {
	root, disks := filepath.Join(dir, "root"), filepath.Join(dir, "disks")
	if err := errors.Join(os.MkdirAll(root, 0o755), os.MkdirAll(filepath.Join(disks, "shared"), 0o755)); err != nil {
		return nil, err
	}
	host, err := volume.NewHost(root)
	if err != nil {
		return nil, err
	}
	getter := &content.MapGetter{}
	getter.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "words"}, Data: map[string]string{"hello": "world"}})
	plugins, err := volume.NewVolumePluginMgr(host,
		local.New(local.Config{Mounter: mounter, Roots: []string{disks}}),
		emptydir.New(emptydir.Config{Mounter: mounter}),
		content.NewConfigMap(content.Config{Mounter: mounter, ConfigMaps: getter}),
	)
	if err != nil {
		return nil, err
	}
	n := &podNode{source: manager.NewMemorySource()}
	n.source.SetVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: filepath.Join(disks, "shared")}},
			ClaimRef:               &v1.ObjectReference{Namespace: "bench", Name: "shared", UID: "claim"},
		},
	})
	n.source.SetClaim(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "shared", UID: "claim"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "shared"},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	})
	n.manager, err = manager.New(manager.Config{Plugins: plugins, Host: host, Mounter: mounter, Source: n.source})
	return n, err
}

// benchPod has a tmpfs, a disk that it shares with all others, and a config map.
func benchPod(i int) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "pod-" + strconv.Itoa(i), UID: types.UID("uid-" + strconv.Itoa(i))}}
	pod.Spec.Volumes = []v1.Volume{
		{Name: "memory", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}},
		{Name: "shared", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: "shared"}}},
		{Name: "words", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "words"}}}},
	}
	c := v1.Container{Name: "c"}
	for _, v := range pod.Spec.Volumes {
		c.VolumeMounts = append(c.VolumeMounts, v1.VolumeMount{Name: v.Name, MountPath: "/" + v.Name})
	}
	pod.Spec.Containers = []v1.Container{c}
	return pod
}

// A churned is what it took.
type churned struct {
	up, down time.Duration
	cpu      float64 // ms, with what was executed
}

// churn brings pods up and takes them down.
func (n *podNode) churn(ctx context.Context, count int) (r churned, err error) {
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- n.manager.Run(running) }()
	defer func() {
		stop()
		if failed := <-ended; !errors.Is(failed, context.Canceled) {
			err = errors.Join(err, failed)
		}
	}()
	var pods []*v1.Pod
	var uids []types.UID
	for i := range count {
		pods, uids = append(pods, benchPod(i)), append(uids, benchPod(i).UID)
	}
	cpu, begin := processorTimeOfAll(), time.Now()
	n.source.SetPod(pods...)
	for _, pod := range pods {
		if err := n.manager.WaitForAttachAndMount(ctx, pod); err != nil {
			return r, err
		}
	}
	r.up, begin = time.Since(begin), time.Now()
	n.source.RemovePod(uids...)
	for _, pod := range pods {
		if err := n.manager.WaitForUnmount(ctx, pod); err != nil {
			return r, err
		}
	}
	r.down, r.cpu = time.Since(begin), processorTimeOfAll()-cpu
	return r, nil
}

// processorTimeOfAll is that of this process and of all that it has executed.
func processorTimeOfAll() float64 {
	var children syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &children); err != nil {
		return 0
	}
	return processorTime() + float64(children.Utime.Nano()+children.Stime.Nano())/1e6
}
