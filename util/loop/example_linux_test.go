package loop_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/volumekit/volumekit/util/loop"
)

// A driver whose volumes are files attaches one in NodeStageVolume, finds it again, also
// after a restart, and detaches it in NodeUnstageVolume. All three calls can be repeated.
func ExampleAttachFileDevice() {
	ctx, image := context.Background(), "/var/lib/driver/volume.img"
	device, err := loop.AttachFileDevice(ctx, image, loop.Config{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("to be formatted and mounted:", device.Path)

	again, err := loop.GetLoopDevice(ctx, image)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the same:", again.Path == device.Path)

	if err := loop.DetachFileDevice(ctx, image); err != nil {
		log.Fatal(err)
	}
}

// A loop device with a name holds a disk; a later process finds it by the name.
func ExampleAttach() {
	ctx := context.Background()
	disk, err := os.Open("/dev/disk/by-id/nvme-eui.0025385b")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	if _, err := loop.Attach(ctx, loop.Config{File: disk, Name: "agent: data", ReadOnly: true}); err != nil {
		log.Fatal(err)
	}

	held, err := loop.Named(ctx, "agent: data")
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range held {
		fmt.Println(d.Path, "holds", d.Backing)
		if err := loop.Detach(ctx, d); err != nil {
			log.Fatal(err)
		}
	}
}
