package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

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
)

// measureManager lets the manager set up and tear down pods with three volumes each, among
// many other mounts. The peer is k8s.io/mount-utils under the same plugins, with fewer pods.
// The floor makes the plugins' system calls. Figures are per volume.
func measureManager(b *bench) error {
	n, err := newNode(b.dir)
	if err != nil {
		return err
	}
	foreign := b.mounts[len(b.mounts)-1]
	if err := n.grow(foreign); err != nil {
		return err
	}
	ours, err := churn(b, filepath.Join(b.dir, "ours"), n.ours, 500)
	if err != nil {
		return err
	}
	theirs, err := churn(b, filepath.Join(b.dir, "peer"), mountutils.From(n.peer), 10)
	if err != nil {
		return err
	}
	raw := &rawPods{dir: filepath.Join(b.dir, "floor"), shared: n.source(), pods: 500}
	if err := makeAll(raw.dir); err != nil {
		return err
	}
	return b.measure(trial{
		work:   "pods with 3 volumes up + down, per volume, N foreign mounts",
		size:   foreign,
		rounds: 3,
		ours:   ours,
		peer:   theirs,
		floor:  side{per: 3 * raw.pods, up: raw.up, down: raw.down},
	})
}

// churn returns a side that sets pods up and tears them down while a manager runs.
func churn(b *bench, dir string, mounter mount.Interface, count int) (side, error) {
	n, err := newPodNode(b.ctx, dir, mounter)
	if err != nil {
		return side{}, err
	}
	var pods []*v1.Pod
	for i := range count {
		pods = append(pods, benchPod(i))
	}
	return side{
		per:     3 * count,
		prepare: func() error { return n.start(b.ctx) },
		up:      func() error { return n.bringUp(b.ctx, pods) },
		down:    func() error { return n.takeDown(b.ctx, pods) },
		tidy:    n.stop,
		seen:    n.seen,
	}, nil
}

// A podNode is a node with a manager.
type podNode struct {
	root    string
	source  *manager.MemorySource
	manager *manager.Manager
	stop    func() error
}

func newPodNode(ctx context.Context, dir string, mounter mount.Interface) (*podNode, error) {
	root, disks := filepath.Join(dir, "root"), filepath.Join(dir, "disks")
	if err := makeAll(root, filepath.Join(disks, "shared")); err != nil {
		return nil, err
	}
	host, err := volume.NewHost(ctx, root)
	if err != nil {
		return nil, err
	}
	getter := &content.MapGetter{}
	getter.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "words"}, Data: map[string]string{"hello": "world"}})
	plugins, err := volume.NewVolumePluginMgr(ctx, host,
		local.New(local.Config{Mounter: mounter, Roots: []string{disks}}),
		emptydir.New(emptydir.Config{Mounter: mounter}),
		content.NewConfigMap(content.Config{Mounter: mounter, ConfigMaps: getter}),
	)
	if err != nil {
		return nil, err
	}
	n := &podNode{root: root, source: manager.NewMemorySource()}
	err = errors.Join(n.source.SetVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: filepath.Join(disks, "shared")}},
			ClaimRef:               &v1.ObjectReference{Namespace: "bench", Name: "shared", UID: "claim"},
		},
	}), n.source.SetClaim(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bench", Name: "shared", UID: "claim"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "shared"},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	}))
	if err != nil {
		return nil, err
	}
	n.manager, err = manager.New(manager.Config{Plugins: plugins, Mounter: mounter, Pods: n.source, Claims: n.source})
	return n, err
}

// benchPod returns a pod with a tmpfs, a disk that all pods share, and a ConfigMap.
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

// start runs the node's manager until stop is called.
func (n *podNode) start(ctx context.Context) error {
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- n.manager.Run(running) }()
	n.stop = func() error {
		cancel()
		return <-ended
	}
	return nil
}

func (n *podNode) bringUp(ctx context.Context, pods []*v1.Pod) error {
	if err := n.source.SetPod(pods...); err != nil {
		return err
	}
	for _, pod := range pods {
		if err := n.manager.WaitForAttachAndMount(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

func (n *podNode) takeDown(ctx context.Context, pods []*v1.Pod) error {
	for _, pod := range pods {
		n.source.RemovePod(pod.UID)
	}
	for _, pod := range pods {
		if err := n.manager.WaitForUnmount(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}

// seen describes the volumes of the first pod.
func (n *podNode) seen() (string, error) {
	dirs, err := filepath.Glob(filepath.Join(n.root, "pods/uid-0/volumes/*/*"))
	if err != nil {
		return "", err
	}
	text := ""
	for _, dir := range dirs {
		mounted, err := rawIsMountPoint(dir)
		if err != nil {
			return "", err
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintln(filepath.Base(dir), mounted, len(entries))
	}
	return text, nil
}

// rawPods are pods with the same volumes.
type rawPods struct {
	dir, shared string
	pods        int
}

func (r *rawPods) volumes(pod int) (memory, shared, words string) {
	dir := filepath.Join(r.dir, strconv.Itoa(pod))
	return dir + "-memory", dir + "-shared", dir + "-words"
}

var rawWords = map[string][]byte{"hello": []byte("world")}

func (r *rawPods) up() error {
	for pod := range r.pods {
		memory, shared, words := r.volumes(pod)
		err := errors.Join(rawTmpfs(memory), rawSetUp(r.shared, shared), os.Mkdir(words, 0o755))
		if err == nil {
			err = (&rawSet{}).write(words, rawWords)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (r *rawPods) down() error {
	for pod := range r.pods {
		memory, shared, words := r.volumes(pod)
		if err := errors.Join(rawTearDown(memory), rawTearDown(shared), os.RemoveAll(words)); err != nil {
			return err
		}
	}
	return nil
}
