package podvolume_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/atomicdir"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// A plugin whose volume in a pod is a mount.
func ExampleMounts() {
	host, err := exampleHost()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(host.Root())
	ctx, mounter := context.Background(), mounttest.NewFake(mount.Config{})
	dir, err := host.PodVolumeDir("5c0e-77", "example.com/ram", "scratch")
	if err != nil {
		fmt.Println(err)
		return
	}
	mounts := podvolume.NewMounts(host, mounter)
	for range 2 { // idempotent
		fmt.Println(mounts.SetUp(ctx, dir, mount.Request{Source: "ram", FSType: "tmpfs"}))
	}
	fmt.Println(mounter.IsMountPoint(ctx, dir))
	fmt.Println(mounts.TearDown(ctx, dir))
	_, err = os.Stat(dir)
	fmt.Println("gone:", os.IsNotExist(err))
	// Output:
	// <nil>
	// <nil>
	// true <nil>
	// <nil>
	// gone: true
}

// A plugin whose volume in a pod is a directory that is removed with the pod. Package atomicdir writes the files:
// the pod can replace them by links, which os.WriteFile would follow at the next SetUp. The example
// DirectoryPlugin of package volumetest is a whole plugin.
func ExampleDirs() {
	host, err := exampleHost()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(host.Root())
	ctx := context.Background()
	dir, err := host.PodVolumeDir("5c0e-77", "example.com/greeting", "hello")
	if err != nil {
		fmt.Println(err)
		return
	}
	dirs := podvolume.NewDirs(host, mounttest.NewFake(mount.Config{}), "example.com/greeting")
	err = dirs.SetUp(ctx, dir, podvolume.Dir{
		Mode:   0o755,
		Record: json.RawMessage(`{"language":"en"}`),
		Fill: func(ctx context.Context, dir string) error {
			files := map[string]atomicdir.File{"greeting": {Data: []byte("hello")}}
			_, err := atomicdir.Write(ctx, dir, files, atomicdir.Options{})
			return err
		},
	})
	text, _ := os.ReadFile(filepath.Join(dir, "greeting"))
	fmt.Println(err, string(text))
	fmt.Println(dirs.TearDown(ctx, dir))
	_, err = os.Stat(dir)
	fmt.Println("gone:", os.IsNotExist(err))
	// Output:
	// <nil> hello
	// <nil>
	// gone: true
}

func exampleHost() (*volume.Host, error) {
	root, err := os.MkdirTemp("", "example")
	if err != nil {
		return nil, err
	}
	return volume.NewHost(context.Background(), root)
}
