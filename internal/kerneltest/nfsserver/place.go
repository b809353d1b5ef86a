package nfsserver

import (
	"fmt"
	"strings"
)

// The server's addresses. IPv6 works if the kernel has it.
const (
	IPv4 = "127.0.0.1"
	IPv6 = "::1"
)

// The addresses of the far server and of its clients: see [ServeFar].
const (
	Far  = "192.0.2.2"
	near = "192.0.2.1"
)

// A Place is a server's address.
type Place struct {
	Address string
	Port    int

	mountPort int // of NFSv3
}

// At returns another address of the same server. A client may recognise the server, and
// continue to use the address that it has.
func (p Place) At(address string) Place {
	p.Address = address
	return p
}

// Source returns the source of a mount of an exported directory.
func (p Place) Source(dir string) string {
	if strings.Contains(p.Address, ":") {
		return "[" + p.Address + "]:" + dir
	}
	return p.Address + ":" + dir
}

// Options returns the options that mount(2) needs for a version such as "4.2": mount(2)
// resolves no address, and for "3" no port.
func (p Place) Options(version string) string {
	if version == "3" {
		return fmt.Sprintf("vers=3,addr=%s,port=%d,mountport=%d,proto=tcp,mountproto=tcp,nolock", p.Address, p.Port, p.mountPort)
	}
	client := p.Address
	if client == Far {
		client = near
	}
	return fmt.Sprintf("vers=%s,addr=%s,clientaddr=%s,port=%d", version, p.Address, client, p.Port)
}
