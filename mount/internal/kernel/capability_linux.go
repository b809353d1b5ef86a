package kernel

import "golang.org/x/sys/unix"

// HasCapability reports whether the calling thread has a capability, such as unix.CAP_SYS_ADMIN, in its user
// namespace, also if a system call filter forbids to ask.
func HasCapability(capability uint) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return true
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}
