package building

import (
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"golang.org/x/sys/unix"
)

// buildDetached builds a detached tree, by open_tree(2) or fsmount(2). It goes with its
// descriptor unless it is attached.
func (d *draft) buildDetached() (*Tree, error) {
	var fd int
	var err error
	switch {
	case d.source == nil:
		fd, err = mountFileSystem(d.spec)
	case d.source.proof != noProof:
		fd, err = d.cloneLone()
	default:
		fd, err = d.clone(d.source.cloneFD())
	}
	if err != nil {
		return nil, err
	}
	if err := mapIDs(fd, d.spec); err != nil {
		kernel.Close(fd)
		return nil, err
	}
	return &Tree{FD: fd}, nil
}

// cloneFD returns the descriptor to clone: the file in an anchor, if there is one.
func (s *Source) cloneFD() int {
	if s.anchored >= 0 {
		return s.anchored
	}
	return s.FD
}

// clone clones the mount at fd, with the flags and the propagation of the spec.
func (d *draft) clone(fd int) (int, error) {
	recursive := recursiveFlag(d.spec)
	flags := unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH | recursive
	change := d.spec.Options.Change()
	change.Propagation = uint64(propagationBits(d.spec.Propagation))
	if d.tier >= TierTreeAttr {
		return openTreeAttr(fd, flags, &change)
	}
	tree, err := unix.OpenTree(fd, "", flags)
	if err != nil {
		return -1, err
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH|recursive, &change); err != nil {
		kernel.Close(tree)
		return -1, err
	}
	return tree, nil
}

// cloneWithSubmounts clones the mount at fd together with the mounts below it.
func (d *draft) cloneWithSubmounts(fd int) (int, error) {
	s := *d.spec
	s.Submounts = spec.IncludeSubmounts
	whole := draft{d.tier, &s, d.source}
	return whole.clone(fd)
}

// recursiveFlag returns the flag for calls that shall include submounts.
func recursiveFlag(s *spec.Spec) uint {
	if s.Submounts == spec.IncludeSubmounts {
		return unix.AT_RECURSIVE
	}
	return 0
}
