package recycler_test

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/recycler"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// It mounts for real, so it is shown and not run.
func ExampleLocal() {
	mounter := mount.New(mount.Config{})
	defer func() { _ = mounter.Close() }()
	if err := recycle(context.Background(), mounter, "/var/lib/volumes"); err != nil {
		fmt.Println(err) // the volume must not be reused
	}
}

// recycle empties the volume that is at disks/a.
func recycle(ctx context.Context, mounter mount.Interface, dir string) error {
	disks := filepath.Join(dir, "disks")
	host, err := volume.NewHost(context.Background(), filepath.Join(dir, "root"))
	if err != nil {
		return err
	}
	plugins, err := volume.NewVolumePluginMgr(context.Background(), host, local.New(local.Config{Mounter: mounter, Roots: []string{disks}}))
	if err != nil {
		return err
	}
	volumes, err := recycler.NewLocal(recycler.LocalConfig{Host: host, Plugin: plugins.FindPluginBySpec})
	if err != nil {
		return err
	}
	pv := &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	pv.Spec.Local = &v1.LocalVolumeSource{Path: filepath.Join(disks, "a")}
	return volumes.Recycle(ctx, pv.Name, volume.NewSpecFromPersistentVolume(pv, false))
}
