package nfs

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
	"golang.org/x/sys/unix"
)

func TestHostOf(t *testing.T) {
	for source, want := range map[string]string{
		"server:/export": "server", "10.0.0.1:/": "10.0.0.1", "a.b.c:/d:/e": "a.b.c",
		"[2001:db8::1]:/export": "2001:db8::1", "[fe80::1%eth0]:/x": "fe80::1%eth0",
	} {
		host, err := hostOf(source)
		require.NoError(t, err, source)
		require.Equal(t, want, host)
	}
	for _, source := range []string{
		"", "server", ":/export", "server:export", "[]:/x", "[a:/x", "a b:/x", "a,b:/x", "-a:/x", "a/b:/x",
		"[not:an:address]:/x", "a:/b/../c", "a:b:/c",
	} {
		_, err := hostOf(source)
		var input *failure.InputError
		require.ErrorAs(t, err, &input, source)
		require.Equal(t, "Source", input.Field)
	}
}

func TestWithAddresses(t *testing.T) {
	given := options.Options{Data: []string{"hard", "timeo=10"}}
	require.Equal(t, versions, versionsFor(given))
	for _, option := range []string{"vers=4.1", "nfsvers=4", "v4.2", "vers=3"} {
		require.Equal(t, []string{""}, versionsFor(options.Options{Data: []string{"hard", option}}), option)
	}
	server, client := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2")
	require.Equal(t, []string{"hard", "timeo=10", "vers=4.2", "addr=10.0.0.1", "clientaddr=10.0.0.2"},
		withAddresses(given, "vers=4.2", server, client).Data)
	require.Equal(t, []string{"hard", "timeo=10", "addr=10.0.0.1"}, withAddresses(given, "", server, netip.Addr{}).Data)
	require.Len(t, given.Data, 2)
}

// TestCheckReachable: an address with others after it must listen; the last need not.
func TestCheckReachable(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	local := netip.MustParseAddr("127.0.0.1")
	o := options.Options{Data: []string{fmt.Sprintf("port=%d", listener.Addr().(*net.TCPAddr).Port)}}
	require.NoError(t, checkReachable(t.Context(), local, 2, o))
	require.NoError(t, listener.Close())
	require.ErrorIs(t, checkReachable(t.Context(), local, 2, o), unix.ECONNREFUSED)
	require.NoError(t, checkReachable(t.Context(), local, 1, o))
	require.NoError(t, checkReachable(t.Context(), local, 2, options.Options{Data: []string{"proto=rdma"}}))

	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	require.Error(t, checkReachable(ended, local, 2, o))
}

func TestTCPPort(t *testing.T) {
	for option, want := range map[string]uint16{
		"hard": 2049, "port=2050": 2050, "port=0": 2049, "proto=tcp6": 2049,
		"port=x": 0, "port=65536": 0, "proto=udp": 0, "rdma": 0,
	} {
		port, ok := tcpPort(options.Options{Data: []string{option}})
		require.Equal(t, want, port, option)
		require.Equal(t, want != 0, ok, option)
	}
}
