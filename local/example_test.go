package local_test

import (
	"context"
	"errors"
	"log"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
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
