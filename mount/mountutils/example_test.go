package mountutils_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/mount/mountutils"
	peer "k8s.io/mount-utils"
)

// A driver's mounter is made in one line, here in a test of the driver; elsewhere
// it is mount.New instead of NewFake. A second call for the same mount changes nothing.
func ExampleNew() {
	dir, err := temporary("target")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	target := filepath.Join(dir, "target")

	mounter := mountutils.New(mounttest.NewFake(mount.Config{}))
	for range 2 {
		if err := mounter.Mount("cache", target, "tmpfs", []string{"size=1m", "ro"}); err != nil {
			log.Fatal(err)
		}
	}
	device, count, err := peer.GetDeviceNameFromMount(mounter, target)
	fmt.Println(device, count, err)
	fmt.Println(peer.CleanupMountPoint(target, mounter, true))
	// Output:
	// cache 1 <nil>
	// <nil>
}

// A test passes its FakeMounter to code that takes a mount.Interface.
func ExampleFrom() {
	dir, err := temporary("source", "target")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()

	fake := peer.NewFakeMounter(nil)
	mounter := mountutils.From(fake)
	req := mount.Request{Source: filepath.Join(dir, "source"), Target: filepath.Join(dir, "target"), Options: []string{"ro"}}
	for range 2 {
		if err := mounter.Mount(context.Background(), req); err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(len(fake.GetLog()), fake.MountPoints[0].Opts)
	// Output:
	// 1 [bind rprivate ro nosuid nodev]
}

// temporary makes a directory with directories in it.
func temporary(names ...string) (dir string, err error) {
	if dir, err = os.MkdirTemp("", "example"); err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	for _, name := range names {
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, name), 0o755)
		}
	}
	return dir, err
}
