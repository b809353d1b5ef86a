package nfs_test

import (
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A proxy stands between client and server, and passes on so many bytes of what
// the server says until it may speak.
type proxy struct {
	listener net.Listener
	mu       sync.Mutex
	left     int64
	silent   *sync.Cond
	spoken   bool
}

func newProxy(t *testing.T, port int, bytes int64) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	b := &proxy{listener: listener, left: bytes}
	b.silent = sync.NewCond(&b.mu)
	go b.serve(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	t.Cleanup(func() {
		b.allowReply()
		_ = listener.Close()
	})
	return b
}

// serve ends with the listener, and each connection with either of its sides.
func (b *proxy) serve(address string) {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", address)
		if err != nil {
			_ = client.Close()
			continue
		}
		go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
		go func() { _, _ = io.Copy(client, limitedReader{b, server}); _ = client.Close() }()
	}
}

func (b *proxy) port() int { return b.listener.Addr().(*net.TCPAddr).Port }

func (b *proxy) allowReply() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spoken = true
	b.silent.Broadcast()
}

// A limitedReader reads the server's bytes up to the limit of its proxy.
type limitedReader struct {
	*proxy
	server io.Reader
}

func (h limitedReader) Read(p []byte) (int, error) {
	read, err := h.server.Read(p[:h.waitForBytes(len(p))])
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = max(h.left-int64(read), 0)
	return read, err
}

// waitForBytes waits until bytes may pass, and returns their number, at most the given one.
func (b *proxy) waitForBytes(most int) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.left == 0 && !b.spoken {
		b.silent.Wait()
	}
	if b.spoken {
		return int64(most)
	}
	return min(int64(most), b.left)
}
