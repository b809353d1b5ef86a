package subpath_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/subpath"
)

func Example() {
	root, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(root) }()
	if root, err = filepath.EvalSymlinks(root); err != nil {
		log.Fatal(err)
	}
	podDir := filepath.Join(root, "pods/1234")
	volumeDir := filepath.Join(podDir, "volumes/kubernetes.io~empty-dir/data")
	if err := os.MkdirAll(volumeDir, 0o777); err != nil {
		log.Fatal(err)
	}

	var mounter mount.Interface = mounttest.NewFake(mount.Config{}) // mount.New in a program
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	target, err := subpath.Bind(ctx, mounter, subpath.Request{
		PodDir: podDir, Volume: "data", Container: "web", Index: 0,
		VolumeDir: volumeDir, Path: "logs/web", Create: true,
	})
	fmt.Println(strings.TrimPrefix(target, root), err)

	// After the end of the container, perhaps in another process:
	fmt.Println(subpath.Cleanup(ctx, mounter, podDir, "data"))
	// Output:
	// /pods/1234/volume-subpaths/data/web/0 <nil>
	// <nil>
}
