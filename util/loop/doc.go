// Package loop makes loop devices, loop(4), and finds them again after a restart:
// each can have a name of its maker's, which the kernel keeps.
//
// A loop device holds what is behind it open, a file or a disk, for as long as it is
// attached, whatever becomes of the process that made it. Attaching needs
// CAP_SYS_ADMIN and /dev/loop-control. On other systems than Linux all functions
// fail with an error that wraps errors.ErrUnsupported.
package loop
