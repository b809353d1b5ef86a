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

// A daemons is what answers calls beside the kernel.
type daemons struct {
	listeners []net.Listener
	running   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool // nil after the end
}

// portmapPort is where everybody looks for it.
const portmapPort = 111

// startDaemons listens, in the thread's network, and returns mountd's port.
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
		if err != nil || !d.keep(conn) {
			return
		}
		d.running.Go(func() { _ = errors.Join(answerCalls(conn, p.answer), d.drop(conn)) })
	}
}

// keep returns false after the end.
func (d *daemons) keep(conn net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		_ = conn.Close()
		return false
	}
	d.conns[conn] = true
	return true
}

func (d *daemons) drop(conn net.Conn) error {
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

// handle asks the kernel for the handle of a directory that is exported, or below one.
func (f *files) handle(dir string) ([]byte, error) {
	file, err := os.OpenFile(filepath.Join(f.nfsd(), "filehandle"), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	const most = 64
	if _, err := fmt.Fprintf(file, "%s %s %d\n", domain, quote(f.place(dir)), most); err != nil {
		return nil, err
	}
	answer := make([]byte, 4*most)
	n, err := file.Read(answer)
	if err != nil {
		return nil, err
	}
	return hex.DecodeString(strings.TrimPrefix(strings.TrimSpace(string(answer[:n])), `\x`))
}
