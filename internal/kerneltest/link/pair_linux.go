package link

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Pair makes two devices that are the ends of a cable, one here and one in another
// network namespace. They are down.
func Pair(name, far string, namespace *os.File) error {
	const peer = 1 // VETH_INFO_PEER of linux/veth.h
	end := bytes.Join([][]byte{
		pack(unix.IfInfomsg{}), attribute(unix.IFLA_IFNAME, []byte(far)),
		attribute(unix.IFLA_NET_NS_FD, pack(uint32(namespace.Fd()))),
	}, nil)
	kind := append(attribute(unix.IFLA_INFO_KIND, []byte("veth")), attribute(unix.IFLA_INFO_DATA, attribute(peer, end))...)
	return request(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, bytes.Join([][]byte{
		pack(unix.IfInfomsg{}), attribute(unix.IFLA_IFNAME, []byte(name)), attribute(unix.IFLA_LINKINFO, kind),
	}, nil))
}

// Delete removes a device, and the other end of its cable.
func Delete(name string) error {
	return request(unix.RTM_DELLINK, 0, append(pack(unix.IfInfomsg{}), attribute(unix.IFLA_IFNAME, []byte(name))...))
}

// SetAddress gives a device an IPv4 address, and brings it up.
func SetAddress(name, address string) error {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return err
	}
	err = control(name, unix.SIOCSIFADDR, func(r *unix.Ifreq) error { return r.SetInet4Addr(ip.AsSlice()) })
	if err != nil {
		return err
	}
	return Up(name)
}

// request sends a netlink request, and waits for the kernel's answer.
func request(kind, flags uint16, body []byte) error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer func() { _ = unix.Close(socket) }()
	header := unix.NlMsghdr{
		Len:  uint32(unix.SizeofNlMsghdr + len(body)),
		Type: kind, Flags: flags | unix.NLM_F_REQUEST | unix.NLM_F_ACK,
	}
	if err := unix.Sendto(socket, append(pack(header), body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(socket, answer, 0)
	if err != nil {
		return os.NewSyscallError("recvfrom", err)
	}
	if n < unix.SizeofNlMsghdr+4 {
		return fmt.Errorf("netlink: an answer of %d bytes", n)
	}
	if code := int32(binary.NativeEndian.Uint32(answer[unix.SizeofNlMsghdr:])); code != 0 {
		return os.NewSyscallError("netlink", unix.Errno(-code))
	}
	return nil
}

// attribute encodes a netlink attribute, with its padding.
func attribute(kind uint16, value []byte) []byte {
	a := binary.NativeEndian.AppendUint16(nil, uint16(unix.SizeofRtAttr+len(value)))
	a = binary.NativeEndian.AppendUint16(a, kind)
	a = append(a, value...)
	return append(a, make([]byte, -len(value)&3)...)
}

// pack returns the bytes of a value without pointers.
func pack[T any](value T) []byte {
	return bytes.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&value)), unsafe.Sizeof(value)))
}
