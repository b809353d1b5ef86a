package volumekit_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func useVolume(ctx context.Context, mounter mount.Interface, pv *v1.PersistentVolume, pod *v1.Pod, root, disks string) error {
	host := must(volume.NewHost(root)) // pods/<uid>/volumes/... as the kubelet has it
	plugins := must(volume.NewVolumePluginMgr(host,
		local.New(local.Config{Mounter: mounter, Roots: []string{disks}})))

	spec := volume.NewSpecFromPersistentVolume(pv, true) // read-only
	plugin := must(plugins.FindPluginBySpec(spec))

	up := must(plugin.NewMounter(spec, pod))
	if err := up.SetUp(ctx, volume.MounterArgs{}); err != nil {
		return err
	}
	fmt.Println("the volume is at", strings.TrimPrefix(up.GetPath(), host.Root()))

	down := must(plugin.NewUnmounter(spec.Name(), pod.UID))
	return down.TearDown(ctx)
}

func keepVolumes(ctx context.Context, mounter mount.Interface, source manager.Source, pod *v1.Pod, root, disks string) error {
	host := must(volume.NewHost(root))
	plugins := must(volume.NewVolumePluginMgr(host,
		local.New(local.Config{Mounter: mounter, Roots: []string{disks}}),
		emptydir.New(emptydir.Config{Mounter: mounter})))

	volumes := must(manager.New(manager.Config{Plugins: plugins, Host: host, Mounter: mounter, Source: source}))
	go volumes.Run(ctx)

	if err := volumes.WaitForAttachAndMount(ctx, pod); err != nil {
		return err
	}
	for name, v := range volumes.GetMountedVolumesForPod(pod.UID) {
		fmt.Println(name, "is at", strings.TrimPrefix(v.Path, host.Root()))
	}
	return nil
}

// must keeps the example short; a program returns its errors.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func Example() {
	dir, err := os.MkdirTemp("", "volumekit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	// Symbolic links are for who trusts them to resolve.
	if dir, err = filepath.EvalSymlinks(dir); err == nil {
		err = os.MkdirAll(dir+"/disks/ssd1", 0o755)
	}
	pv := &v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: v1.PersistentVolumeSpec{
			PersistentVolumeSource: v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: dir + "/disks/ssd1"}},
		},
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "8d3c"}}
	if err == nil {
		// mount.New(mount.Config{}) mounts for real.
		err = useVolume(context.Background(), mounttest.NewFake(mount.Config{}), pv, pod, dir, dir+"/disks")
	}
	fmt.Println(err)
	// Output:
	// the volume is at /pods/8d3c/volumes/kubernetes.io~local-volume/data
	// <nil>
}

func Example_manager() {
	dir, err := os.MkdirTemp("", "volumekit")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if dir, err = filepath.EvalSymlinks(dir); err == nil {
		err = os.MkdirAll(dir+"/disks/ssd1", 0o755)
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "8d3c"},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "web", VolumeMounts: []v1.VolumeMount{{Name: "cache", MountPath: "/cache"}}}},
			Volumes: []v1.Volume{{Name: "cache", VolumeSource: v1.VolumeSource{
				EmptyDir: &v1.EmptyDirVolumeSource{Medium: v1.StorageMediumMemory}}}},
		},
	}
	source := manager.NewMemorySource()
	source.SetPod(pod)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if err == nil {
		err = keepVolumes(ctx, mounttest.NewFake(mount.Config{}), source, pod, dir, dir+"/disks")
	}
	fmt.Println(err)
	// Output:
	// cache is at /pods/8d3c/volumes/kubernetes.io~empty-dir/cache
	// <nil>
}
