package fsusage_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/volumekit/volumekit/util/fsusage"
)

// A deadline limits the query of a file system whose server may be dead.
func ExampleStat() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	usage, err := fsusage.Stat(ctx, os.TempDir())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("a file system of some size:", usage.Capacity > 0)
	// Output: a file system of some size: true
}

// The seven values of a CSI driver's NodeGetVolumeStats.
func ExampleInfo() {
	available, capacity, usage, inodes, inodesFree, inodesUsed, err := fsusage.Info(context.Background(), os.TempDir())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(available <= capacity && usage <= capacity, inodesFree <= inodes && inodesUsed <= inodes)
	// Output: true true
}

// The usage of a directory is counted, and returned again for a while.
func ExampleWalker() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.WriteFile(dir+"/file", []byte("text"), 0o600); err != nil {
		log.Fatal(err)
	}
	walker := &fsusage.Walker{MaxAge: time.Minute}
	tree, err := walker.Walk(context.Background(), dir)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tree.Inodes, "inodes,", tree.Unread, "that could not be read")
	// Output: 2 inodes, 0 that could not be read
}
