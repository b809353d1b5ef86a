package mount

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"
)

// Where nothing tells of changes of the mount table, what says whether anything is
// mounted below a source is the kernel itself, in the instant in which it clones it:
// it clones the mounts below, too, if it is told to, and whether there were any can
// be seen from outside. That takes a look at every mount in the source's mount, but a
// hundredth of the time of reading the table. (Unbindable mounts are not cloned, so
// they are not noticed.)

// errNotAlone is that a clone of the source may have others with it.
var errNotAlone = errors.New("it is not known whether anything is mounted below the source")

// cloning is held from a clone to the one that numbers are compared with.
var cloning sync.Mutex

// cloneAlone clones a source and makes sure that nothing was mounted below it. Mounts
// get their numbers in turn (Linux 6.8): if the next one that is made has the next
// number, the clone was one mount. Others who mount meanwhile are reason to try again.
func cloneAlone(tier Tier, src *source, req Request, o Options) (int, error) {
	cloning.Lock()
	defer cloning.Unlock()
	req.Submounts = IncludeSubmounts
	const tries = 4
	for range tries {
		fd, err := cloneTree(tier, src.fd, req, o)
		if err != nil {
			return -1, err
		}
		if alone, err := isNewest(fd); alone || err != nil {
			return fd, err
		}
		closeFD(fd)
	}
	return -1, errNotAlone
}

// isNewest reports whether no mount is newer than the one at fd. On error fd is
// closed.
func isNewest(fd int) (bool, error) {
	number, err := uniqueMount(fd)
	if err == nil {
		var next uint64
		if next, err = nextMount(); err == nil {
			return next == number+1, nil
		}
	}
	closeFD(fd)
	return false, errors.Join(errNotAlone, err)
}

// nextMount makes a mount that nobody sees, of a directory in which nothing is
// mounted, and returns its number.
func nextMount() (uint64, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/proc/self/fd", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer closeFD(fd)
	return uniqueMount(fd)
}

// checkAlone is the same for a mount at a path, with nobody in it, on every kernel: a
// mount with others in it is not one that may expire, umount2(2).
func checkAlone(place string) error {
	if err := unix.Unmount(place, unix.MNT_EXPIRE|unix.UMOUNT_NOFOLLOW); !errors.Is(err, unix.EAGAIN) {
		return errors.Join(errNotAlone, err)
	}
	return nil
}

// buildAlone makes a bind mount in a staging area, where it can be looked at like any
// other that is attached, by the calls of a newer tier.
func (m *Mounter) buildAlone(tier Tier, dir bool, src *source, req Request, o Options) (*tree, error) {
	area, err := openStage(m.config.StagingDir)
	if err != nil {
		return nil, fmt.Errorf("staging: %w", err)
	}
	place := filepath.Join(area.dir, "mount")
	fd, err := stageAlone(tier, place, dir, src, req, o)
	if err != nil {
		area.release()
		return nil, err
	}
	built := detachedTree(fd)
	built.release = func() { closeFD(fd); area.release() }
	return built, nil
}

// stageAlone puts a clone of the source at place, which it makes, and returns its root.
func stageAlone(tier Tier, place string, dir bool, src *source, req Request, o Options) (int, error) {
	if err := makeNode(place, dir); err != nil {
		return -1, err
	}
	req.Submounts = IncludeSubmounts
	clone, err := cloneTree(tier, src.fd, req, o)
	if err != nil {
		return -1, err
	}
	err = unix.MoveMount(clone, "", unix.AT_FDCWD, place, unix.MOVE_MOUNT_F_EMPTY_PATH)
	closeFD(clone) // whoever has it open is in it
	if err == nil {
		err = checkAlone(place)
	}
	if err != nil {
		return -1, err
	}
	return unix.Open(place, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// canProve reports whether a clone of the source can show that it is alone, and lets
// the source be cloned so. Without numbers that takes a place where the clone is
// attached first, which pays where the table is long.
func (m *Mounter) canProve(src *source, req Request) bool {
	tier, err := m.tier()
	if err != nil {
		return false
	}
	_, err = uniqueMount(src.fd)
	numbered := err == nil && tier >= TierDetached && !withoutNumbers
	src.staged = tier == TierClassic || !numbered && m.tableIsLong() && req.IDMap.empty()
	src.prove = numbered || src.staged
	return src.prove
}

// withoutNumbers makes tests do without the mounts' numbers, as kernels before 6.8
// have to.
var withoutNumbers bool

func (m *Mounter) tableIsLong() bool { return m.lines.Load() >= crowd }
