package mount_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// showData bind mounts a directory read-only at the target, queries the mount, and unmounts it
// again. On a node the mounter is mount.New(mount.Config{}).
func showData(ctx context.Context, mounter mount.Interface, data, target string) error {
	req := mount.Request{Source: data, Target: target, Options: []string{"ro"}}
	if err := mounter.Mount(ctx, req); err != nil {
		return err
	}
	place, err := mounter.Resolve(ctx, filepath.Join(target, "file"))
	if err != nil {
		return err
	}
	fmt.Println("mounted:", place.Mount.Mountpoint == target, place.Mount.Flags, place.Path)
	refs, err := mounter.MountRefs(ctx, target)
	if err != nil {
		return err
	}
	fmt.Println("also at", len(refs), "other places")
	return mounter.Unmount(ctx, target)
}

func Example() {
	data, target := exampleDirs()
	defer os.RemoveAll(filepath.Dir(data))
	if err := os.WriteFile(filepath.Join(data, "file"), nil, 0o600); err != nil {
		fmt.Println(err)
	}
	fmt.Println(showData(context.Background(), mounttest.NewFake(mount.Config{}), data, target))
	// Output:
	// mounted: true ro,nosuid,nodev /file
	// also at 0 other places
	// <nil>
}

func ExampleInputError() {
	data, target := exampleDirs()
	defer os.RemoveAll(filepath.Dir(data))
	err := mounttest.NewFake(mount.Config{}).Mount(context.Background(), mount.Request{
		Source: data, Target: target, Options: []string{"ro", "suid,dev"},
	})
	if input := (*mount.InputError)(nil); errors.As(err, &input) {
		fmt.Println(input.Field, input.Value)
	}
	// Output: Options[1] suid,dev
}

func ExampleRequest_remount() {
	data, target := exampleDirs()
	defer os.RemoveAll(filepath.Dir(data))
	ctx, mounter := context.Background(), mounttest.NewFake(mount.Config{})
	fmt.Println(mounter.Mount(ctx, mount.Request{Source: data, Target: target}))
	fmt.Println(mounter.Mount(ctx, mount.Request{Target: target, Options: []string{"ro", "noexec"}, Remount: true}))
	place, err := mounter.Resolve(ctx, target)
	fmt.Println(place.Mount.Flags, err)
	// Output:
	// <nil>
	// <nil>
	// ro,nosuid,nodev,noexec <nil>
}

// exampleDirs creates two directories in a new temporary directory.
func exampleDirs() (data, target string) {
	dir, err := os.MkdirTemp("", "example")
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	data, target = filepath.Join(dir, "data"), filepath.Join(dir, "target")
	if err = errors.Join(err, os.Mkdir(data, 0o750), os.Mkdir(target, 0o750)); err != nil {
		fmt.Println(err)
	}
	return data, target
}
