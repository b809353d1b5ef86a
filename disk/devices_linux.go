package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unsafe"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// kernelDevices are the block devices of this node.
type kernelDevices struct{}

// openNode returns a descriptor that stands for a node, and the number of its device.
func openNode(node string) (fd int, number uint64, err error) {
	if fd, err = safepath.Open(context.Background(), unix.AT_FDCWD, node, 0); err != nil {
		return -1, 0, &fs.PathError{Op: "open", Path: node, Err: err}
	}
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil && stat.Mode&unix.S_IFMT != unix.S_IFBLK {
		err = unix.ENOTBLK
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, 0, &fs.PathError{Op: "stat", Path: node, Err: err}
	}
	return fd, stat.Rdev, nil
}

func infoOf(node string, number uint64) (Info, error) {
	all, err := blockDevices.stackOf(number)
	if err != nil {
		return Info{}, err
	}
	identity, err := identityOf(number)
	return Info{
		Path: node, Number: number, Major: unix.Major(number), Minor: unix.Minor(number),
		Identity: identity, Stack: all.devices(),
	}, err
}

// Identify implements [Devices].
func (kernelDevices) Identify(node string) (Info, error) {
	fd, number, err := openNode(node)
	if err != nil {
		return Info{}, err
	}
	info, err := infoOf(node, number)
	return info, errors.Join(err, unix.Close(fd))
}

// Open implements [Devices].
func (kernelDevices) Open(node string) (Handle, error) {
	fd, number, err := openNode(node)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	h := &kernelHandle{}
	if h.info, err = infoOf(node, number); err != nil {
		return nil, err
	}
	// By the descriptor, so that it is the device whose number was read.
	if h.file, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		if errors.Is(err, unix.ENOMEDIUM) {
			err = fmt.Errorf("%w: %w", ErrNoMedium, err)
		}
		return nil, err
	}
	if err := h.readFacts(); err != nil {
		_ = h.Close()
		return nil, err
	}
	return h, nil
}

// A kernelHandle is an open block device.
type kernelHandle struct {
	file *os.File
	info Info
}

// readFacts reads size, sequence and whether the device is read-only.
func (h *kernelHandle) readFacts() error {
	fd := int(h.file.Fd())
	var size uint64
	if err := ioctl(fd, unix.BLKGETSIZE64, unsafe.Pointer(&size)); err != nil {
		return fmt.Errorf("size of %s: %w", h.info.Path, err)
	}
	block, err := unix.IoctlGetInt(fd, unix.BLKSSZGET)
	if err != nil {
		return fmt.Errorf("block size of %s: %w", h.info.Path, err)
	}
	readOnly, err := unix.IoctlGetInt(fd, unix.BLKROGET)
	if err != nil {
		return fmt.Errorf("read-only flag of %s: %w", h.info.Path, err)
	}
	size -= size % uint64(block) // a loop device may end within a block, which cannot be read
	if size == 0 {               // a medium may come at any moment
		return ErrNoMedium
	}
	h.info.Size, h.info.ReadOnly = int64(size), readOnly != 0
	if ioctl(fd, unix.BLKGETDISKSEQ, unsafe.Pointer(&h.info.Identity.Sequence)) != nil {
		h.info.Identity.Sequence = 0 // before Linux 5.15
	}
	return nil
}

func ioctl(fd int, request uintptr, into unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(into)); errno != 0 {
		return errno
	}
	return nil
}

// Info implements [Handle].
func (h *kernelHandle) Info() Info { return h.info }

// File implements [Handle].
func (h *kernelHandle) File() *os.File { return h.file }

// Close implements io.Closer.
func (h *kernelHandle) Close() error { return h.file.Close() }

// ReadAt implements io.ReaderAt.
func (h *kernelHandle) ReadAt(into []byte, at int64) (int, error) { return h.file.ReadAt(into, at) }

func (h *kernelHandle) reopen(flags int) (*os.File, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", h.file.Fd()), flags, 0)
	return f, nameRight(err)
}

// openLocked opens a device with a lock that other opens of the node respect, also those of
// other processes, until the file is closed. It is no lock of flock(2): mkfs programs take
// that for themselves.
func openLocked(device *os.File) (*os.File, error) {
	f, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", device.Fd()), os.O_RDWR, 0)
	if err != nil {
		return nil, nameRight(err)
	}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		err = fmt.Errorf("%w: another format of it has not ended", ErrInUse)
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// InUse implements [Handle].
func (h *kernelHandle) InUse(ctx context.Context, ignore string) (bool, error) {
	f, err := h.reopen(os.O_RDONLY | unix.O_EXCL)
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := f.Close(); err != nil {
		return false, err
	}
	return isBelowLoop(ctx, h.info, ignore)
}

// Write implements [Handle]. The exclusive open keeps out others meanwhile, such as the
// mkfs of a killed process.
func (h *kernelHandle) Write(write func(io.WriterAt) error) (err error) {
	f, err := h.reopen(os.O_RDWR | unix.O_EXCL)
	if errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("%w: %w", ErrInUse, err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := write(f); err != nil {
		return err
	}
	return f.Sync()
}
