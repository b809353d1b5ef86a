package mounttest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// publish is the code under test: it binds data read-only at a new directory. If Mount fails it
// removes the directory.
func publish(ctx context.Context, kernel mount.Interface, data, target string) error {
	if err := os.Mkdir(target, 0o750); err != nil {
		return err
	}
	req := mount.Request{Source: data, Target: target, Options: []string{"ro"}}
	if err := kernel.Mount(ctx, req); err != nil {
		return errors.Join(err, os.Remove(target))
	}
	return nil
}

func ExampleFake() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	data, target := filepath.Join(dir, "data"), filepath.Join(dir, "target")
	_ = os.Mkdir(data, 0o750)

	kernel := mounttest.NewFake(mount.Config{})
	kernel.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.ENOMEM, Times: 1})

	err := publish(context.Background(), kernel, data, target)
	fmt.Println("out of memory:", errors.Is(err, syscall.ENOMEM))
	_, err = os.Lstat(target)
	fmt.Println("nothing is left:", errors.Is(err, os.ErrNotExist))

	err = publish(context.Background(), kernel, data, target)
	fmt.Println("again:", err)
	is, _ := kernel.IsMountPoint(context.Background(), target)
	_, readOnly, _ := kernel.RealPath(filepath.Join(target, "file"))
	fmt.Println("mounted:", is, "read-only:", readOnly)
	for _, action := range kernel.Log() {
		fmt.Println(strings.ReplaceAll(action.String(), filepath.ToSlash(dir), ""))
	}
	// Output:
	// out of memory: true
	// nothing is left: true
	// again: <nil>
	// mounted: true read-only: true
	// mount /data on /target: ro,nosuid,nodev, options ["ro"]: mount /data on /target: cannot allocate memory
	// mount /data on /target: ro,nosuid,nodev, options ["ro"]
	// is mount point /target
}

// A server does not answer: calls that query the server end with their context, and its
// mounts can be unmounted all the same.
func ExampleFault_hang() {
	dir, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(dir)
	kernel := mounttest.NewFake(mount.Config{})
	req := mount.Request{Source: "server:/export", Target: dir, FSType: "nfs4"}
	_ = kernel.Mount(context.Background(), req)
	kernel.Inject(mounttest.Fault{FSType: "nfs4", Hang: true})

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	_, err := kernel.Resolve(ctx, filepath.Join(dir, "file"))
	fmt.Println("gave up:", errors.Is(err, context.DeadlineExceeded))
	is, err := kernel.IsMountPoint(context.Background(), dir)
	fmt.Println("mounted:", is, err)
	fmt.Println("unmounted:", kernel.Unmount(context.Background(), dir))

	kernel = mounttest.NewFake(mount.Config{Unmount: mount.UnmountPolicy{Last: mount.UnmountPlain}})
	_ = kernel.Mount(context.Background(), req)
	kernel.Inject(mounttest.Fault{Path: dir, Hang: true})
	err = kernel.Unmount(context.Background(), dir)
	fmt.Println("left alone:", errors.Is(err, mount.ErrNotAnswering))
	// Output:
	// gave up: true
	// mounted: true <nil>
	// unmounted: <nil>
	// left alone: true
}

// A test that leaves nothing on disk: the files below the mounts are in memory as well.
func ExampleMemoryFiles() {
	files := &mounttest.MemoryFiles{}
	_ = files.MkdirAll("/data", 0o755)
	_ = files.MkdirAll("/pods/a/volume", 0o755)
	_ = files.WriteFile("/data/file", []byte("hello"), 0o644)

	kernel := mounttest.NewFakeOn(mount.Config{}, files)
	err := kernel.Mount(context.Background(), mount.Request{Source: "/data", Target: "/pods/a/volume", Options: []string{"ro"}})
	real, readOnly, _ := kernel.RealPath("/pods/a/volume/file")
	text, _ := files.ReadFile(real)
	fmt.Println(err, real, "read-only:", readOnly, string(text))
	// Output: <nil> /data/file read-only: true hello
}
