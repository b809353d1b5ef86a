package manager_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/content"
	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A realNode is a host with the kernel's own mounts.
type realNode struct {
	dir     string
	kernel  *mount.Mounter
	source  *manager.MemorySource
	manager *manager.Manager
}

func newRealNode(dir string) (*realNode, error) {
	kernel := mount.New(mount.Config{})
	n, err := newNodeOn(dir, kernel)
	n.kernel = kernel
	return n, err
}

// newNodeOn returns a node with a shared disk, a hostPath directory, and objects of the API.
// The node has no periodic refresh of content.
func newNodeOn(dir string, kernel mount.Interface) (n *realNode, err error) {
	n = &realNode{dir: dir, source: manager.NewMemorySource()}
	for _, name := range []string{"root", "disks/shared", "links", "seen"} {
		err = errors.Join(err, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	if err != nil {
		return n, err
	}
	host, err := volume.NewHost(context.Background(), filepath.Join(dir, "root"))
	if err != nil {
		return n, err
	}
	getter := &content.MapGetter{}
	getter.SetConfigMap(&v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "real", Name: "words"}, Data: map[string]string{"hello": "world"}})
	getter.SetToken("real", "default", []byte("token"))
	config := getter.Config()
	config.Mounter = kernel
	plugins, err := volume.NewVolumePluginMgr(context.Background(), host,
		local.New(local.Config{
			Mounter: kernel, Roots: []string{filepath.Join(dir, "disks")}, DeviceLinks: []string{filepath.Join(dir, "links")},
		}),
		hostpath.New(hostpath.Config{Mounter: kernel, Roots: []string{filepath.Join(dir, "seen")}}),
		emptydir.New(emptydir.Config{Mounter: kernel}),
		content.NewConfigMap(config), content.NewProjected(config),
	)
	if err != nil {
		return n, err
	}
	n.addSharedDisk(filepath.Join(dir, "disks/shared"))
	n.manager, err = manager.New(manager.Config{Plugins: plugins, Mounter: kernel, Pods: n.source, Claims: n.source, Refresh: -1})
	return n, err
}

// addSharedDisk adds the persistent volume "shared" of a disk, and its claim.
func (n *realNode) addSharedDisk(disk string) {
	n.source.SetVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "shared"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}},
			ClaimRef:               &v1.ObjectReference{Namespace: "real", Name: "shared", UID: "claim"},
		},
	})
	n.source.SetClaim(&v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "real", Name: "shared", UID: "claim"},
		Spec:       v1.PersistentVolumeClaimSpec{VolumeName: "shared"},
		Status:     v1.PersistentVolumeClaimStatus{Phase: v1.ClaimBound},
	})
}

// volume returns a volume source of the kind.
func (n *realNode) volume(kind string) (s v1.VolumeSource) {
	switch kind {
	case "memory":
		s.EmptyDir = &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}
	case "scratch":
		s.EmptyDir = &v1.EmptyDirVolumeSource{}
	case "seen":
		s.HostPath = &v1.HostPathVolumeSource{Path: filepath.Join(n.dir, "seen")}
	case "shared":
		s.PersistentVolumeClaim = &v1.PersistentVolumeClaimVolumeSource{ClaimName: "shared"}
	case "words":
		s.ConfigMap = &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "words"}}
	case "token":
		s.Projected = &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{{
			ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"},
		}}}
	}
	return s
}

// pod returns a pod with a volume of each kind.
func (n *realNode) pod(i int, kinds ...string) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "real", Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i))}}
	pod.Spec.Volumes = make([]v1.Volume, len(kinds))
	mounts := make([]v1.VolumeMount, len(kinds))
	for i, kind := range kinds {
		pod.Spec.Volumes[i] = v1.Volume{Name: kind, VolumeSource: n.volume(kind)}
		mounts[i] = v1.VolumeMount{Name: kind, MountPath: "/" + kind}
	}
	pod.Spec.Containers = []v1.Container{{Name: "c", VolumeMounts: mounts}}
	return pod
}

// newTmpfsDir returns a directory with its own tmpfs. The tmpfs and all mounts on it are detached
// after the test.
func newTmpfsDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	require.NoError(t, mount.New(mount.Config{}).Mount(t.Context(), mount.Request{Source: "test", Target: dir, FSType: "tmpfs"}))
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// run runs the manager until the returned function is called.
func (n *realNode) run(ctx context.Context) (stop func() error) {
	running, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- n.manager.Run(running) }()
	return func() error {
		cancel()
		return <-ended
	}
}

// up brings pods up.
func (n *realNode) up(ctx context.Context, pods ...*v1.Pod) error {
	n.source.SetPod(pods...)
	return waitForEach(ctx, pods, n.manager.WaitForAttachAndMount)
}

// down takes pods down.
func (n *realNode) down(ctx context.Context, pods ...*v1.Pod) error {
	var uids []types.UID
	for _, pod := range pods {
		uids = append(uids, pod.UID)
	}
	n.source.RemovePod(uids...)
	return waitForEach(ctx, pods, n.manager.WaitForUnmount)
}

func waitForEach(ctx context.Context, pods []*v1.Pod, wait func(context.Context, *v1.Pod) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	for _, pod := range pods {
		if err := wait(ctx, pod); err != nil {
			return err
		}
	}
	return nil
}
