package local_test

import (
	"context"
	"errors"
	"log"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A disk is mounted once for the node, and then for a pod. It is formatted if it is
// blank.
func ExamplePlugin_NewDeviceMounter() {
	ctx := context.Background()
	host, err := volume.NewHost("/var/lib/node")
	if err != nil {
		log.Fatal(err)
	}
	plugin := local.New(local.Config{Mounter: mount.New(mount.Config{}), DeviceLinks: []string{"/dev/disk/by-id"}})
	if _, err := volume.NewVolumePluginMgr(host, plugin); err != nil {
		log.Fatal(err)
	}
	source := v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/dev/disk/by-id/nvme-eui.0025385b"}}
	spec := volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: source},
	}, false)

	devices, err := plugin.NewDeviceMounter()
	if err != nil {
		log.Fatal(err)
	}
	at, err := devices.GetDeviceMountPath(spec)
	if err != nil {
		log.Fatal(err)
	}
	err = devices.MountDevice(ctx, spec, at, volume.DeviceMounterArgs{})
	var content *local.ContentError
	switch {
	case errors.As(err, &content):
		log.Fatal("somebody's data: ", content.Found)
	case errors.Is(err, local.ErrDeviceSwapped):
		log.Fatal("not the disk that it was")
	case err != nil:
		log.Fatal(err)
	}

	group := int64(2000)
	mounter, err := plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := mounter.SetUp(ctx, volume.MounterArgs{FsGroup: &group}); err != nil {
		log.Fatal(err)
	}
}

// A pod gets a disk as it is: it finds the device at the path that MapPodDevice returns.
func ExamplePlugin_NewBlockVolumeMapper() {
	ctx := context.Background()
	var plugin *local.Plugin // as in the example of NewDeviceMounter
	block := v1.PersistentVolumeBlock
	source := v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: "/dev/disk/by-id/nvme-eui.0025385b"}}
	spec := volume.NewSpecFromPersistentVolume(&v1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "raw"},
		Spec:       v1.PersistentVolumeSpec{PersistentVolumeSource: source, VolumeMode: &block},
	}, false)
	mapper, err := plugin.NewBlockVolumeMapper(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := mapper.SetUpDevice(ctx); err != nil {
		log.Fatal(err)
	}
	device, err := mapper.MapPodDevice(ctx)
	if err != nil {
		log.Fatal(err)
	}
	log.Print("for the container: ", device)

	// When the pod is gone:
	unmapper, err := plugin.NewBlockVolumeUnmapper("raw", "1")
	if err != nil {
		log.Fatal(err)
	}
	global, err := unmapper.GetGlobalMapPath(spec)
	if err != nil {
		log.Fatal(err)
	}
	if err := unmapper.UnmapPodDevice(ctx); err != nil {
		log.Fatal(err)
	}
	if err := unmapper.TearDownDevice(ctx, global, ""); errors.Is(err, local.ErrDeviceInUse) {
		log.Print("another pod has it")
	} else if err != nil {
		log.Fatal(err)
	}
}

// What is on a disk that has become larger grows with it while pods use it.
func ExamplePlugin_NodeExpand() {
	var plugin *local.Plugin // with the disk mounted, see NewDeviceMounter
	var spec *volume.Spec
	grown, err := plugin.NodeExpand(context.Background(), volume.NodeResizeOptions{
		Spec: spec, NewSize: resource.MustParse("200Gi"),
	})
	switch {
	case errors.Is(err, volume.ErrUncertain):
		log.Print("interrupted: the same call goes on")
	case err != nil:
		log.Fatal(err)
	case !grown:
		log.Print("the disk is smaller yet")
	}
}
