package nfsserver_test

import (
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"golang.org/x/sys/unix"
)

func TestPlace(t *testing.T) {
	p := nfsserver.Place{Address: nfsserver.IPv4, Port: 2049}
	require.Equal(t, "127.0.0.1:/x", p.Source("/x"))
	require.Equal(t, "[::1]:/x", p.At(nfsserver.IPv6).Source("/x"))
	require.Equal(t, "vers=4.1,addr=::1,clientaddr=::1,port=2049", p.At(nfsserver.IPv6).Options("4.1"))
}

func TestSilent(t *testing.T) {
	conn := dial(t, nfsserver.Silent(t))
	_, err := conn.Write([]byte("hello"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(100*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func dial(t *testing.T, p nfsserver.Place) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort(p.Address, strconv.Itoa(p.Port)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestRefused(t *testing.T) {
	p := nfsserver.Refused(t)
	_, err := net.Dial("tcp", net.JoinHostPort(p.Address, strconv.Itoa(p.Port)))
	require.ErrorIs(t, err, unix.ECONNREFUSED)
}
