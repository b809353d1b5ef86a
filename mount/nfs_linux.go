package mount

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/volumekit/volumekit/util/ctxend"
	"golang.org/x/sys/unix"
)

// buildNFS mounts an export without a program: each address of the server and each
// version in turn, until one is accepted.
func (m *Mounter) buildNFS(ctx context.Context, req Request, o Options) (*tree, error) {
	host, err := nfsHost(req.Source)
	if err != nil {
		return nil, err
	}
	servers, err := lookUp(ctx, host)
	if err != nil {
		return nil, err
	}
	var failed []error
	for i, server := range servers {
		err := reach(ctx, server, len(servers)-i, o)
		if err == nil {
			var built *tree
			if built, err = m.buildNFSFrom(ctx, server, req, o); err == nil {
				return built, nil
			}
		}
		failed = append(failed, fmt.Errorf("server %s: %w", server, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(failed...)
}

// reach tries to connect to a server that has further addresses, for its share of
// the time: the kernel would wait for minutes for one that is out of reach. The last
// is left to the kernel.
func reach(ctx context.Context, server netip.Addr, left int, o Options) error {
	port, ok := nfsPort(o)
	if left <= 1 || !ok {
		return nil
	}
	timeout := 5 * time.Second
	if deadline, ok := ctx.Deadline(); ok {
		timeout = min(timeout, time.Until(deadline)/time.Duration(left))
	}
	dialer := net.Dialer{Timeout: timeout}
	conn, err := dialer.DialContext(ctx, "tcp", netip.AddrPortFrom(server, port).String())
	if err != nil {
		return err
	}
	return conn.Close()
}

func (m *Mounter) buildNFSFrom(ctx context.Context, server netip.Addr, req Request, o Options) (*tree, error) {
	client := clientFor(server)
	req.FSType = "nfs" // of which the others are versions
	var notThis error
	for _, version := range versionsToTry(o) {
		if ctx.Err() != nil {
			return nil, ctxend.Error(ctx)
		}
		built, err := m.build(true, nil, req, o.withNFS(version, server, client))
		switch {
		case errors.Is(err, unix.EPROTONOSUPPORT):
			notThis = err
		case !errors.Is(err, unix.EINVAL):
			return built, err
		case notThis == nil: // the client, or what else is asked for, may be too old for it
			notThis = err
		}
	}
	return nil, notThis
}

// lookUp returns the addresses of a server.
func lookUp(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", quote(host), err)
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("server %s: it has no address", quote(host))
	}
	for i, address := range addresses {
		addresses[i] = address.Unmap()
	}
	return addresses, nil
}

// clientFor returns the address by which a server can call back, which version 4.0
// needs. Nothing is sent to find it out.
func clientFor(server netip.Addr) netip.Addr {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(server, defaultNFSPort)))
	if err != nil {
		return netip.Addr{}
	}
	defer func() { _ = conn.Close() }()
	local, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return netip.Addr{}
	}
	return local.AddrPort().Addr().Unmap()
}
