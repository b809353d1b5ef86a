package link

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Up sets a device up, as "ip link set up" does. It is idempotent.
func Up(name string) error { return change(name, unix.IFF_UP|unix.IFF_RUNNING) }

// Down sets a device down, as "ip link set down" does: the device drops all packets. It is
// idempotent.
func Down(name string) error { return change(name, 0) }

func change(name string, flags uint16) error {
	return control(name, unix.SIOCSIFFLAGS, func(r *unix.Ifreq) error {
		r.SetUint16(flags)
		return nil
	})
}

// control makes an ioctl about a device.
func control(name string, number uint, set func(*unix.Ifreq) error) error {
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(socket) }()
	request, err := unix.NewIfreq(name)
	if err != nil {
		return err
	}
	if err := set(request); err != nil {
		return err
	}
	return os.NewSyscallError(fmt.Sprintf("ioctl %#x", number), unix.IoctlIfreq(socket, number, request))
}
