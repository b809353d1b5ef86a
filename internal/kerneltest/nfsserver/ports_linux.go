package nfsserver

import (
	"net"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Silent returns the place of a server that accepts connections and says nothing,
// until the test ends. It takes no guest.
func Silent(t testing.TB) Place {
	t.Helper()
	listener, err := net.Listen("tcp4", IPv4+":0")
	if err != nil {
		t.Fatal(err)
	}
	var accepting sync.WaitGroup
	accepting.Go(func() { holdConnections(listener) })
	t.Cleanup(func() {
		_ = listener.Close()
		accepting.Wait()
	})
	newTally(t).dead.Add(1)
	return Place{Address: IPv4, Port: listener.Addr().(*net.TCPAddr).Port}
}

// holdConnections keeps connections until the listener is closed.
func holdConnections(listener net.Listener) {
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = conn.Close() }()
	}
}

// Refused returns a place that refuses connections until the test ends: its port belongs to
// a socket that does not listen. It needs no guest.
func Refused(t testing.TB) Place {
	t.Helper()
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(socket) })
	if err := unix.Bind(socket, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(socket)
	if err != nil {
		t.Fatal(err)
	}
	newTally(t).dead.Add(1)
	return Place{Address: IPv4, Port: name.(*unix.SockaddrInet4).Port}
}
