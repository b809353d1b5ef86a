package loop_test

import (
	"fmt"
	"log"
	"os"

	"github.com/volumekit/volumekit/util/loop"
)

// A disk is held by a loop device with a name, under which a later process finds it.
func ExampleAttach() {
	disk, err := os.Open("/dev/disk/by-id/nvme-eui.0025385b")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = disk.Close() }()
	if _, err := loop.Attach(loop.Config{File: disk, Name: "agent: data", ReadOnly: true}); err != nil {
		log.Fatal(err)
	}

	held, err := loop.Named("agent: data")
	if err != nil {
		log.Fatal(err)
	}
	for _, d := range held {
		fmt.Println(d.Path, "holds", d.Backing)
		if err := loop.Detach(d); err != nil {
			log.Fatal(err)
		}
	}
}
