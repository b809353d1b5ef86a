package building

import (
	"errors"
	"sync"

	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"golang.org/x/sys/unix"
)

// Without events about the mount table, a clone proves that its source is alone: the kernel
// clones submounts in the same instant, on request, and their presence can be seen from
// outside. That inspects every mount in the source's mount, but takes a hundredth of the time
// of reading the table. The kernel does not clone unbindable mounts, so they are not noticed.

// WithoutUniqueIDs makes builders prove without unique mount IDs, as before Linux 6.8. Tests
// set it.
var WithoutUniqueIDs bool

// RequireProof makes the next build from the source prove that it is alone, and reports
// whether the kernel can prove that. Without unique mount IDs the proof needs a staging area,
// which is faster than the mount table only if the table is long.
func (b *Builder) RequireProof(source *Source, s *spec.Spec, longTable bool) bool {
	tier, err := b.SelectTier()
	if err != nil {
		return false
	}
	numbered := source.Unique != 0 && tier >= TierDetached && !WithoutUniqueIDs
	switch {
	case tier == TierClassic || !numbered && longTable && s.IDMap.IsEmpty():
		source.proof = proofByStaging
	case numbered:
		source.proof = proofByUniqueIDs
	default:
		source.proof = noProof
	}
	return source.proof != noProof
}

// WaiveProof makes the next build from the source prove nothing.
func (s *Source) WaiveProof() { s.proof = noProof }

// cloning is locked between a clone and the clone to which its number is compared.
var cloning sync.Mutex

// cloneLone clones a source that has no submounts. The kernel assigns unique mount IDs in
// sequence: if the next mount has the next ID, the clone is one mount. A concurrent mount of
// another process also takes an ID, so cloneLone tries again.
func (d *draft) cloneLone() (int, error) {
	cloning.Lock()
	defer cloning.Unlock()
	const maxAttempts = 4
	for range maxAttempts {
		fd, err := d.cloneWithSubmounts(d.source.FD)
		if err != nil {
			return -1, err
		}
		newest, err := isNewest(fd)
		if newest {
			return fd, nil
		}
		kernel.Close(fd)
		if err != nil {
			return -1, errors.Join(errNotLone, err)
		}
	}
	return -1, errNotLone
}

// isNewest reports whether no mount is newer than the mount at fd.
func isNewest(fd int) (bool, error) {
	number, err := kernel.UniqueMountID(fd)
	if err != nil {
		return false, err
	}
	next, err := nextMountID()
	return err == nil && next == number+1, err
}

// nextMountID returns the unique mount ID of a new detached mount, of a directory without
// submounts.
func nextMountID() (uint64, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/proc/self/fd", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer kernel.Close(fd)
	return kernel.UniqueMountID(fd)
}

// requireLone fails if the mount at place has submounts: umount2(2) lets only a mount without
// submounts expire, and the first call just marks it.
func requireLone(place string) error {
	if err := unix.Unmount(place, unix.MNT_EXPIRE|unix.UMOUNT_NOFOLLOW); !errors.Is(err, unix.EAGAIN) {
		return errors.Join(errNotLone, err)
	}
	return nil
}

// buildProven builds a bind mount with the calls of a newer tier in a staging area, where
// requireLone can inspect it. The mount is attached there, and moves by descriptor.
func (d *draft) buildProven(stagingDir string) (*Tree, error) {
	t, err := openArea(stagingDir, d.source.ID.Dir)
	if err != nil {
		return nil, err
	}
	if err := d.cloneTo(t); err != nil {
		t.Release()
		return nil, err
	}
	t.place = ""
	return t, nil
}

// cloneTo attaches a clone of the source at the place of a tree.
func (d *draft) cloneTo(t *Tree) error {
	clone, err := d.cloneWithSubmounts(d.source.FD)
	if err != nil {
		return err
	}
	err = unix.MoveMount(clone, "", unix.AT_FDCWD, t.place, unix.MOVE_MOUNT_F_EMPTY_PATH)
	kernel.Close(clone) // the mount stays attached
	if err == nil {
		err = requireLone(t.place)
	}
	if err != nil {
		return err
	}
	return t.openRoot()
}
