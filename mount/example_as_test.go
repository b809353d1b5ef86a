package mount_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// metered counts the mounts of another mounter. It has the ability that mounts as well, and shows
// the others with Unwrap.
type metered struct {
	mount.Interface
	mounts int
}

func (m *metered) Unwrap() mount.Interface { return m.Interface }

func (m *metered) Mount(ctx context.Context, req mount.Request) error {
	m.mounts++
	return m.Interface.Mount(ctx, req)
}

func (m *metered) MountNew(ctx context.Context, req mount.Request, dir mount.NewDirectory) (bool, error) {
	inner, ok := mount.As[mount.DirectoryMounter](m.Interface)
	if !ok {
		return false, nil // declined: the caller calls Mount
	}
	mounted, err := inner.MountNew(ctx, req, dir)
	if mounted {
		m.mounts++
	}
	return mounted, err
}

func (m *metered) UnmountRemove(ctx context.Context, target string, wait mount.Patience) (unmounted, removed bool) {
	inner, ok := mount.As[mount.DirectoryMounter](m.Interface)
	if !ok {
		return false, false
	}
	return inner.UnmountRemove(ctx, target, wait)
}

// A mounter that wraps another keeps the abilities of the other one.
func ExampleAs() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	m := &metered{Interface: mounttest.NewFake(mount.Config{})}

	directories, _ := mount.As[mount.DirectoryMounter](m)
	req := mount.Request{Source: dir, Target: filepath.Join(dir, "pods/1/volume")}
	mounted, err := directories.MountNew(ctx, req, mount.NewDirectory{Perm: 0o750, Below: dir})
	fmt.Println(mounted, err, m.mounts)
	unmounted, removed := directories.UnmountRemove(ctx, req.Target, mount.NoWait)
	fmt.Println(unmounted, removed)

	_, ok := mount.As[mount.Isolator](m)
	fmt.Println("isolates:", ok)
	// Output:
	// true <nil> 1
	// true true
	// isolates: true
}
