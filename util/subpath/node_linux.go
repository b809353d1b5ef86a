package subpath

import (
	"errors"

	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

const (
	toLook = unix.O_PATH | unix.O_NOFOLLOW | unix.O_CLOEXEC
	toList = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

	// quiet returns cached attributes, and waits for no server.
	quiet = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_SYMLINK_NOFOLLOW | unix.AT_STATX_DONT_SYNC
)

// A node is a descriptor with the attributes of its file.
type node struct {
	fd    int
	kind  uint32 // unix.S_IF*
	mode  uint32
	uid   uint32
	size  uint64
	mount uint64
	made  bool // created by this call
}

func (n node) isDirectory() bool { return n.kind == unix.S_IFDIR }

func (n node) close() { _ = unix.Close(n.fd) }

// openNode opens an entry of a directory, and does not follow a link.
func openNode(dir int, name string) (node, error) {
	fd, err := retryInterrupted(func() (int, error) { return unix.Openat(dir, name, toLook, 0) })
	if err != nil {
		return node{}, err
	}
	return statNode(fd)
}

// statNode reads the attributes of a descriptor, and closes it if that fails.
func statNode(fd int) (node, error) {
	var x unix.Statx_t
	const want = unix.STATX_TYPE | unix.STATX_MODE | unix.STATX_UID | unix.STATX_SIZE | unix.STATX_MNT_ID
	err := unix.Statx(fd, "", quiet, want, &x)
	n := node{fd: fd, kind: uint32(x.Mode) & unix.S_IFMT, mode: uint32(x.Mode) &^ unix.S_IFMT, uid: x.Uid, size: x.Size, mount: x.Mnt_id}
	if err == nil && x.Mask&unix.STATX_MNT_ID == 0 { // Linux before 5.8
		var id int
		id, err = safepath.MountID(fd)
		n.mount = uint64(id)
	}
	if err != nil {
		n.close()
	}
	return n, err
}

// link returns the target of a symbolic link.
func (n node) link() (string, error) {
	text := make([]byte, unix.PathMax)
	size, err := unix.Readlinkat(n.fd, "", text)
	if err == nil && size == 0 {
		err = unix.ENOENT
	}
	return string(text[:max(size, 0)]), err
}

// retryInterrupted retries on EINTR and EAGAIN, a bounded number of times.
func retryInterrupted(call func() (int, error)) (int, error) {
	const tries = 1000
	var n int
	var err error
	for range tries {
		n, err = call()
		if !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			break
		}
	}
	return n, err
}
