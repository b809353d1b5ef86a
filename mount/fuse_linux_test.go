package mount_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// A fuseFS is a FUSE file system with one file, "disk". It serves until it is
// told to hang; then it answers nothing any more until it is released.
//
// Its daemon is a process of its own, which dies with this one: a process that is
// the daemon of what its threads wait for could not even be killed.
type fuseFS struct {
	commands io.WriteCloser
	replies  io.Reader
	ended    chan struct{} // closed when the daemon is gone
}

// fuseVar makes a process the daemon; it names the content of the file "disk".
const fuseVar = "VOLUMEKIT_TEST_FUSE"

const fuseDescriptor = 3 // in the daemon

// hang makes it answer nothing any more.
func (f *fuseFS) hang() { f.command('h') }

// release makes it answer again, and what it has been asked meanwhile.
func (f *fuseFS) release() { f.command('r') }

// die kills the daemon.
func (f *fuseFS) die() {
	_ = f.commands.Close()
	<-f.ended
}

// held is how many requests it has not answered since it hangs.
func (f *fuseFS) held() int { return int(f.command('n')) }

func (f *fuseFS) command(c byte) (reply byte) {
	_, _ = f.commands.Write([]byte{c})
	answer := make([]byte, 1)
	_, _ = f.replies.Read(answer)
	return answer[0]
}

// The opcodes of linux/fuse.h that need an answer of their own, or get none.
const (
	fuseLookup      = 1
	fuseForget      = 2
	fuseGetattr     = 3
	fuseSetattr     = 4
	fuseOpen        = 14
	fuseRead        = 15
	fuseWrite       = 16
	fuseStatfs      = 17
	fuseRelease     = 18
	fuseFsync       = 20
	fuseFlush       = 25
	fuseInit        = 26
	fuseOpendir     = 27
	fuseReleasedir  = 29
	fuseDestroy     = 38
	fuseBatchForget = 42
)

// mountFUSE mounts one at dir, of the type fuse, or fuseblk on a device. It needs
// the machine's root.
func mountFUSE(t *testing.T, dir string, disk []byte) *fuseFS {
	t.Helper()
	return mountFUSEOn(t, "hung", dir, "fuse.hung", disk)
}

// mountHungFS mounts one that hangs.
func mountHungFS(t *testing.T, dir string) *fuseFS {
	t.Helper()
	h := mountFUSE(t, dir, nil)
	h.hang()
	return h
}

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
		f.die() // and whatever waits for it gets an error
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
	c.ExtraFiles = []*os.File{dev}
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c.Stderr = os.Stderr
	commands, err := c.StdinPipe()
	require.NoError(t, err)
	replies, err := c.StdoutPipe()
	require.NoError(t, err)
	f := &fuseFS{commands: commands, replies: replies, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		defer close(f.ended)
		runtime.LockOSThread() // the daemon dies with the thread
		err := c.Start()
		started <- err
		if err == nil {
			_ = c.Wait()
		}
	}()
	require.NoError(t, <-started)
	return f
}

// A daemon serves a fuseFS.
type daemon struct {
	dev  int
	mu   sync.Mutex
	disk []byte
	hung chan struct{} // closed when it is released; nil: it serves
	held byte          // requests that wait for that
}

// serveFUSE is the whole life of a daemon, and nothing in other processes.
func serveFUSE() {
	image := os.Getenv(fuseVar)
	if image == "" {
		return
	}
	disk, err := os.ReadFile(image)
	if err != nil {
		panic(err)
	}
	d := &daemon{dev: fuseDescriptor, disk: disk}
	go d.serve()
	for command := make([]byte, 1); ; {
		if _, err := os.Stdin.Read(command); err != nil {
			os.Exit(0)
		}
		d.mu.Lock()
		if command[0] == 'h' && d.hung == nil {
			d.hung = make(chan struct{})
		}
		if command[0] == 'r' && d.hung != nil {
			close(d.hung)
			d.hung, d.held = nil, 0
		}
		if command[0] == 'n' {
			command[0] = d.held
		}
		d.mu.Unlock()
		_, _ = os.Stdout.Write(command)
	}
}

// serve reads requests until the file system has ended.
func (d *daemon) serve() {
	for {
		request := make([]byte, 1<<17)
		n, err := unix.Read(d.dev, request)
		if err == unix.EINTR || err == unix.EAGAIN || err == unix.ENOENT {
			continue
		}
		if err != nil || n < 40 {
			return
		}
		hung := d.hold(binary.NativeEndian.Uint32(request[4:]))
		if hung == nil {
			d.handle(request[:n])
			continue
		}
		go func() {
			<-hung
			d.handle(request[:n])
		}()
	}
}

// hold returns what a request has to wait for, if anything.
func (d *daemon) hold(opcode uint32) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch opcode {
	case fuseInit, fuseForget, fuseBatchForget:
		return nil
	}
	if d.hung != nil && d.held < math.MaxUint8 {
		d.held++
	}
	return d.hung
}

// handle answers a request: struct fuse_in_header and what follows it.
func (d *daemon) handle(request []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	unique := binary.NativeEndian.Uint64(request[8:])
	node := binary.NativeEndian.Uint64(request[16:])
	body := request[40:]
	switch binary.NativeEndian.Uint32(request[4:]) {
	case fuseForget, fuseBatchForget:
	case fuseInit:
		d.answer(unique, 0, initAnswer())
	case fuseLookup:
		if string(body) != "disk\x00" || len(d.disk) == 0 {
			d.answer(unique, -int32(unix.ENOENT), nil)
			return
		}
		entry := make([]byte, 40)
		binary.NativeEndian.PutUint64(entry, diskNode)
		binary.NativeEndian.PutUint64(entry[16:], hour) // the name is valid so long
		binary.NativeEndian.PutUint64(entry[24:], hour)
		d.answer(unique, 0, append(entry, d.attr(diskNode)...))
	case fuseGetattr, fuseSetattr:
		out := make([]byte, 16)
		binary.NativeEndian.PutUint64(out, hour)
		d.answer(unique, 0, append(out, d.attr(node)...))
	case fuseOpen, fuseOpendir:
		d.answer(unique, 0, make([]byte, 16))
	case fuseRead:
		offset, size := d.extent(body)
		d.answer(unique, 0, d.disk[offset:min(offset+size, uint64(len(d.disk)))])
	case fuseWrite:
		offset, size := d.extent(body)
		copy(d.disk[offset:], body[40:40+size])
		d.answer(unique, 0, binary.NativeEndian.AppendUint64(nil, size))
	case fuseStatfs:
		d.answer(unique, 0, make([]byte, 80))
	case fuseRelease, fuseReleasedir, fuseFsync, fuseFlush, fuseDestroy:
		d.answer(unique, 0, nil)
	default:
		d.answer(unique, -int32(unix.ENOSYS), nil)
	}
}

const (
	diskNode = 2
	hour     = 3600
)

// extent reads offset and size off struct fuse_read_in or fuse_write_in.
func (d *daemon) extent(body []byte) (offset, size uint64) {
	offset = min(binary.NativeEndian.Uint64(body[8:]), uint64(len(d.disk)))
	return offset, uint64(binary.NativeEndian.Uint32(body[16:]))
}

// attr is struct fuse_attr.
func (d *daemon) attr(node uint64) []byte {
	out := make([]byte, 88)
	binary.NativeEndian.PutUint64(out, node)
	mode := uint32(unix.S_IFDIR | 0o755)
	if node == diskNode {
		mode = unix.S_IFREG | 0o644
		binary.NativeEndian.PutUint64(out[8:], uint64(len(d.disk)))
	}
	binary.NativeEndian.PutUint32(out[60:], mode)
	binary.NativeEndian.PutUint32(out[64:], 1)   // links
	binary.NativeEndian.PutUint32(out[80:], 512) // block size
	return out
}

// answer writes struct fuse_out_header and what follows it.
func (d *daemon) answer(unique uint64, errno int32, payload []byte) {
	out := make([]byte, 16, 16+len(payload))
	binary.NativeEndian.PutUint32(out, uint32(16+len(payload)))
	binary.NativeEndian.PutUint32(out[4:], uint32(errno))
	binary.NativeEndian.PutUint64(out[8:], unique)
	_, _ = unix.Write(d.dev, append(out, payload...))
}

// initAnswer is struct fuse_init_out of protocol 7.23, which later kernels speak.
func initAnswer() []byte {
	out := make([]byte, 64)
	binary.NativeEndian.PutUint32(out, 7)
	binary.NativeEndian.PutUint32(out[4:], 23)
	binary.NativeEndian.PutUint32(out[20:], 1<<16) // largest write
	return out
}

// loopDevice makes a loop device of a file that nobody writes otherwise. It is
// free again when nothing is mounted of it any more.
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
		if errors.Is(err, unix.EBUSY) { // somebody was faster
			_ = device.Close()
			continue
		}
		require.NoError(t, err)
		t.Cleanup(func() { _ = device.Close() })
		return name
	}
}
