package building

import (
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"golang.org/x/sys/unix"
)

// propagationBits returns a propagation for mount_setattr(2) and mount(2). Private is
// explicit: the clone of a shared mount would join its peer group, and every mount and
// unmount in it would visit each peer.
func propagationBits(p spec.Propagation) uintptr {
	switch p {
	case spec.PropagationSlave:
		return unix.MS_SLAVE
	case spec.PropagationShared:
		return unix.MS_SHARED
	}
	return unix.MS_PRIVATE
}

// setPropagation sets the propagation of the mount at path, and of its submounts if the spec
// includes them. For a staged tree it is the last step: a mount cannot move out of a shared
// mount, but a shared mount can move out of the private staging area.
func setPropagation(path string, s *spec.Spec) error {
	bits := propagationBits(s.Propagation)
	if s.Submounts == spec.IncludeSubmounts {
		bits |= unix.MS_REC
	}
	return unix.Mount("", path, "", bits, "")
}

// RestorePropagation sets the propagation of an attached tree again: a mount that is attached
// below a shared mount becomes shared.
func (t *Tree) RestorePropagation(s *spec.Spec) error {
	if s.Propagation == spec.PropagationShared {
		return nil
	}
	return setPropagation(kernel.DescriptorPath(t.FD), s)
}
