package util_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
)

// What a plugin does whose volume in a pod is a mount.
func ExamplePodMounts() {
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
	mounts := util.NewPodMounts(host, mounter)
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

// What a plugin does whose volume in a pod is a directory that goes with the pod.
func ExamplePodDirs() {
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
	dirs := util.NewPodDirs(host, mounttest.NewFake(mount.Config{}), "example.com/greeting")
	err = dirs.SetUp(ctx, dir, util.PodDir{
		Mode:   0o755,
		Record: json.RawMessage(`{"language":"en"}`),
		Fill: func(_ context.Context, dir string) error {
			return os.WriteFile(filepath.Join(dir, "greeting"), []byte("hello"), 0o600)
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
	return volume.NewHost(root)
}
