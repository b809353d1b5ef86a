package hostpath_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func Example() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	host, err := volume.NewHost(context.Background(), dir)
	if err != nil {
		log.Fatal(err)
	}
	// A program that mounts for real has mount.New(mount.Config{}) here.
	plugin := hostpath.New(hostpath.Config{Mounter: mounttest.NewFake(mount.Config{}), Roots: []string{"/var/log"}})
	mgr, err := volume.NewVolumePluginMgr(context.Background(), host, plugin)
	if err != nil {
		log.Fatal(err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}}
	for _, path := range []string{"/var/log", "/etc"} {
		spec := volume.NewSpecFromVolume(&v1.Volume{Name: "logs", VolumeSource: v1.VolumeSource{
			HostPath: &v1.HostPathVolumeSource{Path: path},
		}})
		p, err := mgr.FindPluginBySpec(spec)
		if err != nil {
			log.Fatal(err)
		}
		mounter, err := p.NewMounter(spec, pod)
		if err == nil {
			err = mounter.SetUp(context.Background(), volume.MounterArgs{ReadOnly: true})
		}
		fmt.Println(path, err)
	}
	// Output:
	// /var/log <nil>
	// /etc spec.volume.hostPath.path: Invalid value: "/etc": must be below one of the plugin's roots
}
