package mount

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestReach: one that has others behind it has to listen; the last is tried anyway.
func TestReach(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	local := netip.MustParseAddr("127.0.0.1")
	o := Options{Data: []string{fmt.Sprintf("port=%d", listener.Addr().(*net.TCPAddr).Port)}}
	require.NoError(t, reach(t.Context(), local, 2, o))
	require.NoError(t, listener.Close())
	require.ErrorIs(t, reach(t.Context(), local, 2, o), unix.ECONNREFUSED)
	require.NoError(t, reach(t.Context(), local, 1, o))
	require.NoError(t, reach(t.Context(), local, 2, Options{Data: []string{"proto=rdma"}}))

	ended, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	require.Error(t, reach(ended, local, 2, o))
}

func TestNFSPort(t *testing.T) {
	for option, want := range map[string]uint16{
		"hard": 2049, "port=2050": 2050, "port=0": 2049, "proto=tcp6": 2049,
		"port=x": 0, "port=65536": 0, "proto=udp": 0, "rdma": 0,
	} {
		port, ok := nfsPort(Options{Data: []string{option}})
		require.Equal(t, want, port, option)
		require.Equal(t, want != 0, ok, option)
	}
}
