package local_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/local"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A disk is mounted once for the node, and then for a pod. It is formatted if it is
// blank.
func ExamplePlugin_NewDeviceMounter() {
	ctx := context.Background()
	// Of a Config{Mounter: kernel, DeviceLinks: []string{"/dev/disk/by-id"}}, and
	// registered.
	plugin, kernel, disk, remove := blankDisk()
	defer remove()
	source := v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{Path: disk}}
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

	mounter, err := plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	if err := mounter.SetUp(ctx, volume.MounterArgs{}); err != nil {
		log.Fatal(err)
	}
	for _, dir := range []string{at, mounter.GetPath()} {
		mounted, err := kernel.IsMountPoint(ctx, dir)
		fmt.Println(filepath.Base(dir), mounted, err)
	}
	// Output:
	// data true <nil>
	// data true <nil>
}

// blankDisk is a plugin on a kernel in memory, and a file for it to take for a disk.
func blankDisk() (plugin *local.Plugin, kernel *mounttest.Fake, disk string, remove func()) {
	dir, err := os.MkdirTemp("", "example")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		log.Fatal(err)
	}
	disk = dir + "/links/disk"
	if err := errors.Join(os.Mkdir(dir+"/links", 0o755), os.Mkdir(dir+"/node", 0o755), os.WriteFile(dir+"/disk", nil, 0o600),
		os.Truncate(dir+"/disk", 1<<20), os.Symlink("../disk", disk)); err != nil {
		log.Fatal(err)
	}
	host, err := volume.NewHost(context.Background(), dir+"/node")
	if err != nil {
		log.Fatal(err)
	}
	kernel = mounttest.NewFake(mount.Config{})
	plugin = local.New(local.Config{Mounter: kernel, DeviceLinks: []string{dir + "/links"}})
	plugin.UseFiles()
	if _, err := volume.NewVolumePluginMgr(context.Background(), host, plugin); err != nil {
		log.Fatal(err)
	}
	return plugin, kernel, disk, func() { _ = os.RemoveAll(dir) }
}

// A pod gets a disk as it is: it finds the device at the path that MapPodDevice returns.
// It is not run: that takes root, and a disk.
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
	if _, err := mapper.SetUpDevice(ctx, volume.BlockVolumePaths{}); err != nil {
		log.Fatal(err)
	}
	device, err := mapper.MapPodDevice(ctx, volume.BlockVolumePaths{})
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
	if err := unmapper.TearDownDevice(ctx, volume.BlockVolumePaths{GlobalMapPath: global}); errors.Is(err, local.ErrDeviceInUse) {
		log.Print("another pod has it")
	} else if err != nil {
		log.Fatal(err)
	}
}

// The file system of a disk that was enlarged grows while pods use it.
func ExamplePlugin_NodeExpand() {
	plugin, spec, remove := mountedDisk() // as in the example of NewDeviceMounter
	defer remove()
	grown, err := plugin.NodeExpand(context.Background(), volume.NodeResizeOptions{
		Spec: spec, NewSize: resource.MustParse("200Gi"), // it has 1Mi
	})
	switch {
	case errors.Is(err, volume.ErrUncertain):
		log.Print("interrupted: the same call goes on")
	case err != nil:
		log.Fatal(err)
	case !grown:
		fmt.Println("the disk is smaller yet")
	}
	// Output: the disk is smaller yet
}

func mountedDisk() (*local.Plugin, *volume.Spec, func()) {
	plugin, _, disk, remove := blankDisk()
	spec := deviceSpec(disk, "")
	m, err := plugin.NewDeviceMounter()
	if err != nil {
		log.Fatal(err)
	}
	at, err := m.GetDeviceMountPath(spec)
	if err != nil {
		log.Fatal(err)
	}
	if err := m.MountDevice(context.Background(), spec, at, volume.DeviceMounterArgs{}); err != nil {
		log.Fatal(err)
	}
	return plugin, spec, remove
}
