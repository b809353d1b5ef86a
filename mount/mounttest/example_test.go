package mounttest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// publish is the code under test: it shows data, read-only, at a new directory,
// and leaves no directory behind if it cannot.
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
		fmt.Println(action.Op, filepath.Base(action.Target), action.Flags, action.Err != nil)
	}
	// Output:
	// out of memory: true
	// nothing is left: true
	// again: <nil>
	// mounted: true read-only: true
	// mount target ro,nosuid,nodev true
	// mount target ro,nosuid,nodev false
	// is mount point target rw false
}

// A server that does not answer: calls that have to ask it end with their context,
// and what is mounted can be taken down all the same.
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
