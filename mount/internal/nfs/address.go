package nfs

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/text"
)

// hostOf returns the server of a source: "server:/export", "[2001:db8::1]:/export".
func hostOf(source string) (string, error) {
	host, export, found := strings.Cut(source, ":/")
	if rest, ok := strings.CutPrefix(source, "["); ok {
		host, export, found = strings.Cut(rest, "]:/")
	}
	switch {
	case !found || host == "":
		return "", failure.NewInputError("Source", source, "must be a server and an export, server:/path")
	case strings.ContainsFunc(source, unicode.IsControl):
		return "", failure.NewInputError("Source", source, "must not contain control characters")
	case strings.ContainsAny(host, "/,[] ") || strings.HasPrefix(host, "-"):
		return "", failure.NewInputError("Source", source, "must name a server by host name or address")
	case slices.Contains(strings.Split(export, "/"), ".."):
		return "", failure.NewInputError("Source", source, `the export must not contain ".."`)
	case strings.Contains(host, ":"):
		if _, err := netip.ParseAddr(host); err != nil {
			return "", failure.NewInputError("Source", source, "must have a valid IPv6 address in brackets")
		}
	}
	return host, nil
}

// resolveHost returns the addresses of a server.
func resolveHost(ctx context.Context, host string) ([]netip.Addr, error) {
	if address, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{address}, nil
	}
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", text.Quote(host), err)
	}
	if len(addresses) == 0 {
		return nil, fmt.Errorf("server %s: the name has no address", text.Quote(host))
	}
	for i, address := range addresses {
		addresses[i] = address.Unmap()
	}
	return addresses, nil
}

// checkReachable connects to an address of a server that has further addresses, within its
// share of the time: the kernel would wait for minutes for an unreachable one. The last of left
// addresses is left to the kernel.
func checkReachable(ctx context.Context, server netip.Addr, left int, o options.Options) error {
	port, ok := tcpPort(o)
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

// clientFor returns the client for a server, from the routes of this machine. It sends
// nothing.
func clientFor(server netip.Addr) netip.Addr {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(server, defaultPort)))
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
