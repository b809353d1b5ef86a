package nfsserver

import (
	"fmt"
	"strings"
)

// Where the server is. IPv6 is there if the kernel has it.
const (
	IPv4 = "127.0.0.1"
	IPv6 = "::1"
)

// Where another server is, and its clients seen from there: see [ServeFar].
const (
	Far  = "192.0.2.2"
	near = "192.0.2.1"
)

// A Place is where clients find a server.
type Place struct {
	Address string
	Port    int

	mountPort int // of NFSv3
}

// At returns another place of the same server. A client may find that out, and go on
// to talk to the address that it knows already.
func (p Place) At(address string) Place {
	p.Address = address
	return p
}

// Source is what a mount of an exported directory names as its source.
func (p Place) Source(dir string) string {
	if strings.Contains(p.Address, ":") {
		return "[" + p.Address + "]:" + dir
	}
	return p.Address + ":" + dir
}

// Options are the ones that mount(2) needs for a version such as "4.2", since it
// looks up no address, and no port for "3".
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
