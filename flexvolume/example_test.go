package flexvolume_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/flexvolume"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The drivers of a node are found in a directory, each in one of its own.
func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	drivers := filepath.Join(dir, "exec") // on a node flexvolume.DefaultDir
	if err := os.MkdirAll(filepath.Join(drivers, "example.com~cifs"), 0o755); err != nil {
		log.Fatal(err)
	}
	host, err := volume.NewHost(context.Background(), dir)
	if err != nil {
		log.Fatal(err)
	}
	mgr, err := volume.NewVolumePluginMgr(context.Background(), host)
	if err != nil {
		log.Fatal(err)
	}
	// A program that mounts for real has mount.New(mount.Config{}) here, and Secrets.
	config := flexvolume.Config{Dir: drivers, Mounter: mounttest.NewFake(mount.Config{})}
	names, err := flexvolume.Discover(context.Background(), mgr, config)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(names)

	spec := volume.NewSpecFromVolume(&v1.Volume{Name: "share", VolumeSource: v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{
		Driver: "example.com/cifs", Options: map[string]string{"networkPath": "//server/share"},
	}}})
	plugin, err := mgr.FindPluginBySpec(spec)
	if err != nil {
		log.Fatal(err)
	}
	mounter, err := plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	if err != nil {
		log.Fatal(err)
	}
	// SetUp calls /.../exec/example.com~cifs/cifs mount <path> <options>.
	path, err := filepath.Rel(host.Root(), mounter.GetPath())
	fmt.Println(path, err)
	// Output:
	// [example.com/cifs]
	// pods/1/volumes/example.com~cifs/share <nil>
}
