package disk_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/disk"
	"github.com/volumekit/volumekit/disk/disktest"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// The node side of a CSI driver: NodeStageVolume formats and mounts, NodeExpandVolume grows.
// Here its unit test, with a disk in memory; on a node the disks are
// disk.New(disk.Config{Mounter: mount.New(mount.Config{})}).
func Example() {
	ctx := context.Background()
	staging, remove := stagingDirectory()
	defer remove()
	const gib = 1 << 30
	machine := disktest.NewMachine()
	machine.AddDisk("/dev/vdb", gib)
	disks := machine.Disks(mounttest.NewFake(mount.Config{}))

	stage := disk.MountRequest{Device: "/dev/vdb", Target: staging, FSType: "xfs", Options: []string{"noatime"}, Grow: true}
	for range 2 { // a repeated call changes nothing
		if err := disks.FormatAndMount(ctx, stage); err != nil {
			log.Fatal(err)
		}
	}
	content, err := disks.Probe(ctx, "/dev/vdb")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(content.Found[0].Name, content.Found[0].Size == gib)

	machine.Resize("/dev/vdb", 2*gib) // the storage of the volume has grown
	sizes, err := disks.Grow(ctx, disk.GrowRequest{Target: staging})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("grown:", sizes.FileSystem == 2*gib)

	machine.AddDisk("/dev/vdc", gib)
	machine.Write("/dev/vdc", 512, "LABELONE")
	err = disks.FormatAndMount(ctx, disk.MountRequest{Device: "/dev/vdc", Target: staging + "2"})
	var data *disk.ContentError
	fmt.Println("refused:", errors.As(err, &data), data.Found)
	// Output:
	// xfs true
	// grown: true
	// refused: true [lvm2 (member, byte 512)]
}

func stagingDirectory() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "example")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}
