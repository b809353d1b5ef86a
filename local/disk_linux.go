package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unsafe"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// nodeDevices are the devices of this node.
type nodeDevices struct{}

// kind implements devices. It asks for no more than the kernel remembers.
func (nodeDevices) kind(name string) (kind, error) {
	parent, base, err := safepath.OpenParent(name)
	if err != nil {
		return kindOther, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(parent) }()
	var x unix.Statx_t
	const quiet = unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(parent, base, quiet, unix.STATX_TYPE, &x); err != nil {
		return kindOther, &fs.PathError{Op: "statx", Path: name, Err: err}
	}
	switch x.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return kindDirectory, nil
	case unix.S_IFBLK:
		return kindDevice, nil
	case unix.S_IFLNK:
		return kindLink, nil
	}
	return kindOther, nil
}

func (nodeDevices) readLink(name string) (string, error) {
	parent, base, err := safepath.OpenParent(name)
	if err != nil {
		return "", &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(parent) }()
	buffer := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(parent, base, buffer)
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: err}
	}
	return string(buffer[:n]), nil
}

// An openDisk is a device of this node.
type openDisk struct {
	*os.File
	known diskFacts
}

// openNode returns a descriptor that stands for the node, and its device's number.
func openNode(node string) (fd int, number uint64, err error) {
	if fd, err = safepath.Open(unix.AT_FDCWD, node, 0); err != nil {
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

func factsOf(node string, number uint64) (diskFacts, error) {
	all, err := blockDevices.stackOf(number)
	if err != nil {
		return diskFacts{}, err
	}
	is, err := identityOf(number)
	return diskFacts{
		node: node, number: number, major: unix.Major(number), minor: unix.Minor(number),
		identity: is, parts: all.devices(),
	}, err
}

func (nodeDevices) identify(node string) (diskFacts, error) {
	fd, number, err := openNode(node)
	if err != nil {
		return diskFacts{}, err
	}
	facts, err := factsOf(node, number)
	return facts, errors.Join(err, unix.Close(fd))
}

func (nodeDevices) open(node string) (disk, error) {
	fd, number, err := openNode(node)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Close(fd) }()
	d := &openDisk{}
	if d.known, err = factsOf(node, number); err != nil {
		return nil, err
	}
	// By the descriptor, so that it is the device that was looked at.
	if d.File, err = os.Open(fmt.Sprintf("/proc/self/fd/%d", fd)); err != nil {
		if errors.Is(err, unix.ENOMEDIUM) {
			err = fmt.Errorf("%w: %w", errNoMedium, err)
		}
		return nil, err
	}
	if err := d.ask(); err != nil {
		_ = d.Close()
		return nil, err
	}
	return d, nil
}

// ask asks the kernel for the facts.
func (d *openDisk) ask() error {
	fd := int(d.Fd())
	var size uint64
	if err := ioctl(fd, unix.BLKGETSIZE64, unsafe.Pointer(&size)); err != nil {
		return fmt.Errorf("size of %s: %w", d.known.node, err)
	}
	readOnly, err := unix.IoctlGetInt(fd, unix.BLKROGET)
	if err != nil {
		return fmt.Errorf("whether %s is read-only: %w", d.known.node, err)
	}
	if size == 0 { // to look at it says nothing of what is in it a moment later
		return errNoMedium
	}
	d.known.size, d.known.readOnly = int64(size), readOnly != 0
	if ioctl(fd, unix.BLKGETDISKSEQ, unsafe.Pointer(&d.known.identity.Sequence)) != nil {
		d.known.identity.Sequence = 0 // before Linux 5.15
	}
	return nil
}

func ioctl(fd int, request uintptr, into unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(into)); errno != 0 {
		return errno
	}
	return nil
}

func (d *openDisk) facts() diskFacts { return d.known }
func (d *openDisk) file() *os.File   { return d.File }
func (d *openDisk) handle() string   { return "/proc/self/fd/3" }

func (d *openDisk) again(flags int) (*os.File, error) {
	return os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", d.Fd()), flags, 0)
}

func (d *openDisk) inUse(hold string) (bool, error) {
	f, err := d.again(os.O_RDONLY | unix.O_EXCL)
	if errors.Is(err, unix.EBUSY) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if err := f.Close(); err != nil {
		return false, err
	}
	return isHeld(d.known, hold)
}

// written is the disk for writing, and keeps others, such as a mkfs that a killed process
// has left behind, from writing meanwhile.
func (d *openDisk) written(write func(*os.File) error) (err error) {
	f, err := d.again(os.O_RDWR | unix.O_EXCL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := write(f); err != nil {
		return err
	}
	return f.Sync()
}

func (d *openDisk) mark(sector []byte) error {
	return d.written(func(f *os.File) error {
		_, err := f.WriteAt(sector, 0)
		return err
	})
}

func (d *openDisk) wipe(ctx context.Context, marker []byte) error {
	if err := d.mark(marker); err != nil {
		return err
	}
	if err := d.written(func(f *os.File) error { return d.clear(ctx, f) }); err != nil {
		return err
	}
	return d.mark(make([]byte, markerSize))
}

// clear clears all but the first sector.
func (d *openDisk) clear(ctx context.Context, f *os.File) error {
	const step, head, tail = 1 << 20, 2 << 20, 1 << 20
	zeros := make([]byte, step)
	for _, at := range []int64{markerSize, step, max(head, d.known.size-tail)} {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := max(0, min(step, d.known.size-at))
		if _, err := f.WriteAt(zeros[:n], at); err != nil {
			return err
		}
	}
	return nil
}

// identityOf asks sysfs; what that does not know stays empty. It fails like stackOf.
func identityOf(number uint64) (identity, error) {
	r := &reader{}
	dir := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(number), unix.Minor(number))
	i := identity{Boot: r.word("/proc/sys/kernel/random/boot_id")}
	if part := r.word(dir + "/partition"); part != "" {
		i.Part = part + "@" + r.word(dir+"/start")
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			dir = path.Dir(real)
		}
	}
	i.Sequence, _ = strconv.ParseUint(r.word(dir+"/diskseq"), 10, 64)
	for _, file := range []string{"wwid", "device/wwid", "dm/uuid", "md/uuid", "serial", "device/serial"} {
		if id := r.word(path.Join(dir, file)); id != "" {
			i.ID = path.Base(file) + ":" + id
			break
		}
	}
	return i, r.err
}

// A reader reads what may be there or not.
type reader struct{ err error }

func (r *reader) word(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		r.note(err)
		return ""
	}
	return strings.TrimSpace(string(text))
}

// note keeps an error that does not say that there is nothing.
func (r *reader) note(err error) {
	if isShortage(err) {
		r.err = err
	}
}

// isShortage reports whether an error is about this process or the node, and not about
// what was asked.
func isShortage(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}
