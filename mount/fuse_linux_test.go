package mount_test

import (
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// A hungFS is a FUSE file system that answers nothing but its initialisation
// until it is released, and then refuses everything: a server that is gone and
// comes back.
type hungFS struct {
	dev     int
	release func() // idempotent
}

// The opcodes of linux/fuse.h that need an answer of their own, or get none.
const (
	fuseForget      = 2
	fuseInit        = 26
	fuseBatchForget = 42
)

// mountHungFS mounts one at dir. It needs the machine's root.
func mountHungFS(t *testing.T, dir string) *hungFS {
	t.Helper()
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		mounttest.SkipWithout(t, "fuse", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)
	require.NoError(t, unix.Mount("hung", dir, "fuse.hung", 0, options))
	released := make(chan struct{})
	h := &hungFS{dev: dev, release: sync.OnceFunc(func() { close(released) })}
	go h.serve(released)
	t.Cleanup(func() {
		h.release()
		_ = unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH)
	})
	return h
}

// serve reads requests until the file system is unmounted.
func (h *hungFS) serve(released chan struct{}) {
	defer func() { _ = unix.Close(h.dev) }()
	buf := make([]byte, 1<<17)
	for {
		n, err := unix.Read(h.dev, buf)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		unique := binary.NativeEndian.Uint64(buf[8:])
		switch binary.NativeEndian.Uint32(buf[4:]) {
		case fuseInit:
			h.answer(unique, 0, initAnswer())
		case fuseForget, fuseBatchForget:
		default:
			go func() {
				<-released
				h.answer(unique, -int32(unix.EIO), nil)
			}()
		}
	}
}

// answer writes struct fuse_out_header and what follows it.
func (h *hungFS) answer(unique uint64, errno int32, payload []byte) {
	out := make([]byte, 16, 16+len(payload))
	binary.NativeEndian.PutUint32(out, uint32(16+len(payload)))
	binary.NativeEndian.PutUint32(out[4:], uint32(errno))
	binary.NativeEndian.PutUint64(out[8:], unique)
	_, _ = unix.Write(h.dev, append(out, payload...))
}

// initAnswer is struct fuse_init_out of protocol 7.23, which later kernels speak.
func initAnswer() []byte {
	out := make([]byte, 64)
	binary.NativeEndian.PutUint32(out, 7)
	binary.NativeEndian.PutUint32(out[4:], 23)
	binary.NativeEndian.PutUint32(out[20:], 1<<16) // largest write
	return out
}
