package mount

import "golang.org/x/sys/unix"

// ms spells the propagation for mount_setattr(2) and mount(2). The clone of a
// shared mount would join its peers, and every mount and unmount in it would cost
// one visit to each of them: so "private" is said, too.
func (p Propagation) ms() uintptr {
	switch p {
	case PropagationSlave:
		return unix.MS_SLAVE
	case PropagationShared:
		return unix.MS_SHARED
	}
	return unix.MS_PRIVATE
}

// settlePropagation makes an attached tree what it was built as: a mount that is
// attached below a shared one becomes shared, whatever it was.
func settlePropagation(built *tree, req Request) error {
	if req.Propagation == PropagationShared {
		return nil
	}
	flags := req.Propagation.ms()
	if req.Submounts == IncludeSubmounts {
		flags |= unix.MS_REC
	}
	return unix.Mount("", procFD(built.fd), "", flags, "")
}
