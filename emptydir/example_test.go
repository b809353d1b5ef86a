package emptydir_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/emptydir"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func Example() {
	root, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	host, err := volume.NewHost(context.Background(), root)
	if err != nil {
		fmt.Println(err)
		return
	}
	plugins, err := volume.NewVolumePluginMgr(context.Background(), host, emptydir.New(emptydir.Config{
		Mounter: mounttest.NewFake(mount.Config{}), // mount.New(mount.Config{}) for real
	}))
	if err != nil {
		fmt.Println(err)
		return
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "5c0e-77"}}
	spec := volume.NewSpecFromVolume(&v1.Volume{
		Name:         "scratch",
		VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}},
	})
	plugin, err := plugins.FindPluginBySpec(spec)
	if err != nil {
		fmt.Println(err)
		return
	}

	ctx := context.Background()
	mounter, err := plugin.NewMounter(spec, pod)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("set up:", mounter.SetUp(ctx, volume.MounterArgs{}))
	path, _ := filepath.Rel(host.Root(), mounter.GetPath())
	fmt.Println(path)
	_ = os.WriteFile(mounter.GetPath()+"/file", []byte("scratch"), 0o600)

	unmounter, err := plugin.NewUnmounter(spec.Name(), pod.UID)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("torn down:", unmounter.TearDown(ctx))
	_, err = os.Stat(mounter.GetPath())
	fmt.Println("gone:", os.IsNotExist(err))
	// Output:
	// set up: <nil>
	// pods/5c0e-77/volumes/kubernetes.io~empty-dir/scratch
	// torn down: <nil>
	// gone: true
}
