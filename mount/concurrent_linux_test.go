package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/unmounting"
	"golang.org/x/sys/unix"
)

// TestConcurrentTargets binds one source to different targets in 64 goroutines: the
// kernel finds none of the mounts busy, since no helper process has copies of the
// descriptors of others. Another mount of the file system stays, so that no mount needs
// a hold.
func TestConcurrentTargets(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	if !HasStatmount() {
		return // without unique IDs each file system gets a hold
	}
	rounds := 30
	if os.Getenv("VOLUMEKIT_LONG") != "" {
		rounds = 100_000 / 64
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	disk := filepath.Join(dir, "disk")
	require.NoError(t, os.Mkdir(disk, 0o755))
	m := New(Config{})
	require.NoError(t, m.Mount(t.Context(), Request{Target: disk, FSType: "tmpfs"}))
	source := filepath.Join(disk, "source")
	require.NoError(t, os.Mkdir(source, 0o755))

	var busy atomic.Int64
	umount2 := unmounting.Umount2
	defer func() { unmounting.Umount2 = umount2 }()
	unmounting.Umount2 = func(path string, flags int) error {
		err := umount2(path, flags)
		if errors.Is(err, unix.EBUSY) {
			busy.Add(1)
		}
		return err
	}
	var all sync.WaitGroup
	for i := range 64 {
		target := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.Mkdir(target, 0o755))
		all.Go(func() {
			for range rounds {
				if !mountAndUnmount(t.Context(), t, m, source, target) {
					return
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, busy.Load(), "EBUSY from umount2(2)")
	unmounting.Umount2 = umount2
	require.NoError(t, m.Unmount(t.Context(), disk))
}

func mountAndUnmount(ctx context.Context, t *testing.T, m *Mounter, source, target string) bool {
	return assert.NoError(t, m.Mount(ctx, Request{Source: source, Target: target})) &&
		assert.NoError(t, m.Unmount(ctx, target))
}
