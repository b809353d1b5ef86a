package nfsserver

import "fmt"

// Programs of RPC by their numbers.
const (
	portmapProgram = 100000
	nfsProgram     = 100003
	mountProgram   = 100005
)

// programs answers as rpcbind and as mountd, as far as the kernel and mounts by NFSv3
// require.
type programs struct {
	address string
	ports   map[uint32]int // by program
	handle  func(dir string) ([]byte, error)
}

func (p programs) answer(c call) xdr {
	switch c.program {
	case portmapProgram:
		return p.portmap(c)
	case mountProgram:
		return p.mount(c)
	}
	return nil
}

// portmap accepts the kernel's registrations without an effect.
func (p programs) portmap(c call) xdr {
	const null, set, unset, get, getV4 = 0, 1, 2, 3, 9
	switch c.procedure {
	case null:
		return xdr{}
	case set, unset:
		return numbers(1)
	case get, getV4:
		port := p.ports[c.args.number()]
		if c.version == 2 {
			return numbers(uint32(port))
		}
		if port == 0 {
			return opaque(nil)
		}
		return opaque(fmt.Appendf(nil, "%s.%d.%d", p.address, port>>8, port&0xff))
	}
	return nil
}

// mount is RFC 1813, appendix I, without the list of clients.
func (p programs) mount(c call) xdr {
	const null, mount, unmount, unmountAll = 0, 1, 3, 4
	switch c.procedure {
	case null, unmount, unmountAll:
		return xdr{}
	case mount:
		handle, err := p.handle(string(c.args.opaque()))
		if err != nil {
			const notThere = 2
			return numbers(notThere)
		}
		const authUnix = 1
		return append(append(numbers(0), opaque(handle)...), numbers(1, authUnix)...)
	}
	return nil
}
