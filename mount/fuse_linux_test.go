package mount_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/fuseserver"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// A fuseFS is a FUSE file system with one file, "disk".
type fuseFS struct{ process *fuseserver.Process }

func (f *fuseFS) hang()             { f.process.Hang() }
func (f *fuseFS) release()          { f.process.Release() }
func (f *fuseFS) heldRequests() int { return f.process.Held() }
func (f *fuseFS) kill()             { f.process.Die() }

// fuseVar is set in the process of the daemon: the name of the file with the content of "disk".
const fuseVar = "VOLUMEKIT_TEST_FUSE"

// mountFUSE mounts a fuseFS of type fuse.hung at dir. It needs root.
func mountFUSE(t *testing.T, dir string, disk []byte) *fuseFS {
	t.Helper()
	return mountFUSEOn(t, "hung", dir, "fuse.hung", disk)
}

// mountHungFS mounts a fuseFS that hangs.
func mountHungFS(t *testing.T, dir string) *fuseFS {
	t.Helper()
	h := mountFUSE(t, dir, nil)
	h.hang()
	return h
}

// mountFUSEOn mounts a fuseFS of a type: fuse.NAME, or fuseblk with a block device as source.
func mountFUSEOn(t *testing.T, source, dir, fstype string, disk []byte) *fuseFS {
	t.Helper()
	dev, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		mounttest.SkipWithout(t, "fuse", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", dev.Fd())
	require.NoError(t, unix.Mount(source, dir, fstype, 0, options))
	f := startDaemon(t, dev, disk)
	require.NoError(t, dev.Close())
	t.Cleanup(func() {
		f.kill() // pending requests get an error
		_ = unix.Unmount(dir, unix.MNT_DETACH)
	})
	return f
}

func startDaemon(t *testing.T, dev *os.File, disk []byte) *fuseFS {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.WriteFile(image, disk, 0o600))
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), fuseVar+"="+image)
	c.Stderr = os.Stderr
	process, err := fuseserver.Start(c, dev)
	require.NoError(t, err)
	return &fuseFS{process}
}

// A daemon serves the requests of a fuseFS.
type daemon struct{ disk []byte }

// serveFUSE serves requests and exits in the process of a daemon, and returns in others.
func serveFUSE() {
	image := os.Getenv(fuseVar)
	if image == "" {
		return
	}
	disk, err := os.ReadFile(image)
	if err != nil {
		panic(err)
	}
	fuseserver.Serve((&daemon{disk}).handle)
}

func (d *daemon) handle(r fuseserver.Request) ([]byte, unix.Errno) {
	body := r.Body()
	switch r.Opcode() {
	case fuseserver.Lookup:
		if fuseserver.Text(body) != "disk" || len(d.disk) == 0 {
			return nil, unix.ENOENT
		}
		return d.attr(diskNode).Entry(hour), 0
	case fuseserver.Getattr, fuseserver.Setattr:
		return d.attr(r.Node()).Out(hour), 0
	case fuseserver.Open, fuseserver.Opendir:
		return make([]byte, 16), 0
	case fuseserver.Read:
		offset, size := d.extent(body)
		return d.disk[offset:min(offset+size, uint64(len(d.disk)))], 0
	case fuseserver.Write:
		offset, size := d.extent(body)
		copy(d.disk[offset:], body[40:40+size])
		return binary.NativeEndian.AppendUint64(nil, size), 0
	case fuseserver.Statfs:
		return make([]byte, 80), 0
	case fuseserver.Release, fuseserver.Releasedir, fuseserver.Fsync, fuseserver.Flush, fuseserver.Destroy:
		return nil, 0
	}
	return nil, unix.ENOSYS
}

const (
	diskNode = 2
	hour     = 3600
)

// extent returns offset and size of a struct fuse_read_in or fuse_write_in.
func (d *daemon) extent(body []byte) (offset, size uint64) {
	offset = min(fuseserver.U64(body, 8), uint64(len(d.disk)))
	return offset, uint64(fuseserver.U32(body, 16))
}

func (d *daemon) attr(node uint64) fuseserver.Attr {
	if node == diskNode {
		return fuseserver.Attr{Node: node, Mode: unix.S_IFREG | 0o644, Size: uint64(len(d.disk))}
	}
	return fuseserver.Attr{Node: node, Mode: unix.S_IFDIR | 0o755}
}

// loopDevice returns a loop device for a file without other writers. The kernel frees the
// device when its last mount ends.
func loopDevice(t *testing.T, path string) string {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		mounttest.SkipWithout(t, "loop", err)
	}
	defer func() { _ = control.Close() }()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer func() { _ = file.Close() }()
	for {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		require.NoError(t, err)
		name := fmt.Sprintf("/dev/loop%d", n)
		device, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			mounttest.SkipWithout(t, "loop", err)
		}
		config := unix.LoopConfig{Fd: uint32(file.Fd())}
		config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if errors.Is(err, unix.EBUSY) { // another process has configured it first
			_ = device.Close()
			continue
		}
		require.NoError(t, err)
		t.Cleanup(func() { _ = device.Close() })
		return name
	}
}
