package csi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// oneDriver is a csi.Drivers with one driver. registration.Watcher finds drivers by their sockets.
type oneDriver csi.Driver

func (d oneDriver) Driver(name string) (csi.Driver, bool) { return csi.Driver(d), name == d.Name }

// A volume of a driver is staged, published for a pod, and taken down.
func ExamplePlugin() {
	ctx := context.Background()
	root, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(root)
	root, _ = filepath.EvalSymlinks(root)
	kernel := mounttest.NewFake(mount.Config{})
	driver := csitest.NewDriver(csitest.Config{
		Name: "disks.example.com", Mounter: kernel,
		Capabilities: csitest.Capabilities{Node: []csipb.NodeServiceCapability_RPC_Type{
			csipb.NodeServiceCapability_RPC_STAGE_UNSTAGE_VOLUME,
		}},
	})
	endpoint := filepath.Join(root, "csi.sock")
	if err := driver.Listen(endpoint); err != nil {
		panic(err)
	}
	defer driver.Close()

	host, err := volume.NewHost(ctx, root, volume.WithNodeName("node-1"))
	if err != nil {
		panic(err)
	}
	plugin := csi.New(csi.Config{
		Mounter: kernel,
		Drivers: oneDriver{Name: "disks.example.com", Endpoint: endpoint, Registration: 1},
	})
	if _, err := volume.NewVolumePluginMgr(ctx, host, plugin); err != nil {
		panic(err)
	}
	defer plugin.Close()

	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "5c0e-77"}}
	spec := volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: v1.PersistentVolumeSpec{PersistentVolumeSource: v1.PersistentVolumeSource{
			CSI: &v1.CSIPersistentVolumeSource{Driver: "disks.example.com", VolumeHandle: "vol-1"},
		}},
	}, false)
	devices, _ := plugin.NewDeviceMounter()
	staging, _ := devices.GetDeviceMountPath(spec)
	fmt.Println("staged:", devices.MountDevice(ctx, spec, staging, volume.DeviceMounterArgs{}))
	mounter, _ := plugin.NewMounter(spec, pod)
	fmt.Println("published:", mounter.SetUp(ctx, volume.MounterArgs{DeviceMountPath: staging}))

	// After a restart the files are enough.
	unmounter, _ := plugin.NewUnmounter("data", pod.UID)
	fmt.Println("unpublished:", unmounter.TearDown(ctx))
	undevices, _ := plugin.NewDeviceUnmounter()
	fmt.Println("unstaged:", undevices.UnmountDevice(ctx, staging))
	fmt.Println("broken rules:", len(driver.Violations()))
	// Output:
	// staged: <nil>
	// published: <nil>
	// unpublished: <nil>
	// unstaged: <nil>
	// broken rules: 0
}
