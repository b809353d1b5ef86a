package nfsserver

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// A daemons holds the connections of rpcbind and mountd.
type daemons struct {
	listeners []net.Listener
	running   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil after the end
}

// portmapPort is rpcbind's well-known port.
const portmapPort = 111

// startDaemons listens in the thread's network namespace, and returns mountd's port.
func startDaemons(address string, nfsPort int, f *files) (d *daemons, mountPort int, err error) {
	d = &daemons{conns: map[net.Conn]bool{}}
	for _, port := range []int{portmapPort, 0} {
		listener, err := net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
		if err != nil {
			return nil, 0, errors.Join(err, d.end())
		}
		d.listeners = append(d.listeners, listener)
	}
	mountPort = d.listeners[1].Addr().(*net.TCPAddr).Port
	p := programs{address, map[uint32]int{nfsProgram: nfsPort, mountProgram: mountPort}, f.handle}
	for _, listener := range d.listeners {
		d.running.Go(func() { d.accept(listener, p) })
	}
	return d, mountPort, nil
}

func (d *daemons) accept(listener net.Listener, p programs) {
	for {
		conn, err := listener.Accept()
		if err != nil || !d.addConnection(conn) {
			return
		}
		d.running.Go(func() { _ = errors.Join(answerCalls(conn, p.answer), d.closeConnection(conn)) })
	}
}

// addConnection records a connection; it returns false after the end.
func (d *daemons) addConnection(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		_ = conn.Close()
		return false
	}
	d.conns[conn] = true
	return true
}

func (d *daemons) closeConnection(conn net.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.conns, conn)
	return conn.Close()
}

func (d *daemons) end() (err error) {
	if d == nil {
		return nil
	}
	for _, listener := range d.listeners {
		err = errors.Join(err, listener.Close())
	}
	d.mu.Lock()
	for conn := range d.conns {
		_ = conn.Close()
	}
	d.conns = nil
	d.mu.Unlock()
	d.running.Wait()
	return err
}

// handle queries the kernel for the handle of an exported directory, or of one below it.
func (f *files) handle(dir string) ([]byte, error) {
	file, err := os.OpenFile(filepath.Join(f.nfsd(), "filehandle"), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	const most = 64
	if _, err := fmt.Fprintf(file, "%s %s %d\n", domain, quote(f.pathOf(dir)), most); err != nil {
		return nil, err
	}
	answer := make([]byte, 4*most)
	n, err := file.Read(answer)
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(answer[:n])), `\x`))
}
