package mounttest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

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
