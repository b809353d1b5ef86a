package unittest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// newCache returns a cache on a kernel in memory, and a place for it.
func newCache(t *testing.T) (cache Cache, kernel *mounttest.Fake, dir string) {
	parent, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	kernel = mounttest.NewFake(mount.Config{})
	return Cache{kernel, "server:/cache"}, kernel, filepath.Join(parent, "cache")
}

// TestAttach: the cache is one mount, which is read-only, and goes again.
func TestAttach(t *testing.T) {
	cache, kernel, dir := newCache(t)
	for range 2 {
		if err := cache.Attach(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	mounts, err := kernel.MountsFrom(t.Context(), "server:/cache")
	if err != nil || len(mounts) != 1 || mounts[0].Mountpoint != dir || mounts[0].Flags&mount.ReadOnly == 0 {
		t.Fatalf("%+v, %v", mounts, err)
	}
	for range 2 {
		if err := cache.Detach(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	requireMissing(t, dir)
}

// TestAttachFails: the server refuses the export. Nothing is left of a new mount, and another one stays.
func TestAttachFails(t *testing.T) {
	cache, kernel, dir := newCache(t)
	for _, mounted := range []bool{false, true} {
		kernel.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EACCES, Times: 1})
		if err := cache.Attach(t.Context(), dir); !errors.Is(err, syscall.EACCES) {
			t.Fatal(err)
		}
		if is, _ := kernel.IsMountPoint(t.Context(), dir); is != mounted {
			t.Fatal(is)
		}
		if !mounted {
			requireMissing(t, dir)
		}
		if err := cache.Attach(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
	}
	own := t.TempDir() // which the job made
	kernel.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EACCES, Times: 1})
	if err := cache.Attach(t.Context(), own); !errors.Is(err, syscall.EACCES) {
		t.Fatal(err)
	}
	if _, err := os.Lstat(own); err != nil {
		t.Fatal(err)
	}
}

func requireMissing(t *testing.T, dir string) {
	t.Helper()
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}

// TestDeadServer: a server does not answer. Attach returns when its context ends; the mount of a job can go.
func TestDeadServer(t *testing.T) {
	cache, kernel, dir := newCache(t)
	if err := cache.Attach(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	kernel.Inject(mounttest.Fault{FSType: "nfs4", Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := cache.Attach(ctx, dir+"-2"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	if err := cache.Detach(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
}
