package hostpath_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/hostpath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A symbolic link is followed only in directories that the embedder names: on a node,
// Links: []string{"/etc", "/var"} admits /etc/localtime and /var/run.
func ExampleConfig_links() {
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	dir, _ = filepath.EvalSymlinks(dir)
	for _, name := range []string{"root", "run", "var"} {
		_ = os.Mkdir(filepath.Join(dir, name), 0o755)
	}
	_ = os.Symlink("../run", filepath.Join(dir, "var/run"))

	host, err := volume.NewHost(context.Background(), filepath.Join(dir, "root"))
	if err != nil {
		panic(err)
	}
	plugin := hostpath.New(hostpath.Config{
		Mounter: mounttest.NewFake(mount.Config{}),
		Roots:   []string{filepath.Join(dir, "var"), filepath.Join(dir, "run")},
	})
	if err := plugin.Init(context.Background(), host); err != nil {
		panic(err)
	}
	spec := volume.NewSpecFromVolume(&v1.Volume{Name: "run", VolumeSource: v1.VolumeSource{
		HostPath: &v1.HostPathVolumeSource{Path: filepath.Join(dir, "var/run")},
	}})
	mounter, err := plugin.NewMounter(spec, &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "1"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var link *hostpath.LinkError
	if err := mounter.SetUp(context.Background(), volume.MounterArgs{}); errors.As(err, &link) {
		fmt.Println("a link to", link.To, "is not followed:", link.Reason)
	}
	// Output:
	// a link to ../run is not followed: its directory is not below one of hostpath.Config.Links
}
