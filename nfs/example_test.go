package nfs_test

import (
	"context"
	"fmt"
	"os"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/nfs"
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
	defer func() { _ = os.RemoveAll(root) }()
	mounter := mounttest.NewFake(mount.Config{}) // mount.New(mount.Config{}) on a node
	if err := upAndDown(context.Background(), mounter, root); err != nil {
		fmt.Println(err)
	}
	// Output:
	// nfs from nas.example.com:/export/home: ro,nosuid,nodev
	// mounts left: 0
}

func upAndDown(ctx context.Context, mounter mount.Interface, root string) error {
	host, err := volume.NewHost(context.Background(), root)
	if err != nil {
		return err
	}
	plugins, err := volume.NewVolumePluginMgr(context.Background(), host, nfs.New(nfs.Config{Mounter: mounter}))
	if err != nil {
		return err
	}
	spec := volume.NewSpecFromVolume(&v1.Volume{Name: "home", VolumeSource: v1.VolumeSource{
		NFS: &v1.NFSVolumeSource{Server: "NAS.example.com", Path: "/export//home/", ReadOnly: true},
	}})
	plugin, err := plugins.FindPluginBySpec(spec)
	if err != nil {
		return err
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "pod", UID: "1"}}
	up, err := plugin.NewMounter(spec, pod)
	if err != nil {
		return err
	}
	if err := up.SetUp(ctx, volume.MounterArgs{}); err != nil {
		return err
	}
	table, err := mounter.List(ctx)
	if err != nil {
		return err
	}
	at, _ := mount.Table(table).At(up.GetPath())
	fmt.Printf("%s from %s: %v\n", at.FSType, at.Source, at.Flags)

	down, err := plugin.NewUnmounter(spec.Name(), pod.UID)
	if err != nil {
		return err
	}
	if err := down.TearDown(ctx); err != nil {
		return err
	}
	table, err = mounter.List(ctx)
	_, left := mount.Table(table).At(up.GetPath())
	fmt.Println("mounts left:", map[bool]int{left: 1}[true])
	return err
}
