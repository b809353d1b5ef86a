package fsusage_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/volumekit/volumekit/util/fsusage"
)

// A file system of which nobody knows whether its server is there is asked with a
// deadline.
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

// What a directory takes is counted, and told again for a while.
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
