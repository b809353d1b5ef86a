package mount

import "golang.org/x/sys/unix"

// knowsOption configures a file system that it never makes: it goes with the descriptor.
func knowsOption(fsType, option string) bool {
	context, err := unix.Fsopen(fsType, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return false
	}
	defer closeFD(context)
	return unix.FsconfigSetFlag(context, option) == nil
}
