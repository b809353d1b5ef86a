package atomicdir_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/util/atomicdir"
)

func Example() {
	temp, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	dir, err := filepath.EvalSymlinks(temp)
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	files := map[string]atomicdir.File{
		"user.conf":    {Data: []byte("color=blue\n")},
		"certs/ca.key": {Data: []byte("secret"), Mode: atomicdir.Perm(0o400)},
	}
	for range 2 {
		changed, err := atomicdir.Write(ctx, dir, files, atomicdir.Options{})
		fmt.Println("changed:", changed, "error:", err)
	}
	link, _ := os.Readlink(filepath.Join(dir, "user.conf"))
	data, _ := os.ReadFile(filepath.Join(dir, "user.conf"))
	fmt.Printf("user.conf -> %s: %s", link, data)
	fmt.Println(files)
	// Output:
	// changed: true error: <nil>
	// changed: false error: <nil>
	// user.conf -> ..data/user.conf: color=blue
	// map[certs/ca.key:file of 6 bytes user.conf:file of 11 bytes]
}
