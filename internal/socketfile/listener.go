// Package socketfile listens on Unix sockets that appear when they accept connections, are accessible to their owner
// only, and come back when another process removes them.
package socketfile

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/volumekit/volumekit/internal/dirwatch"
	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/util/ctxend"
)

// Longest is the length of the longest path of a socket on Linux.
const Longest = 107

// Problem returns why a path is none for ListenAlone, or "".
func Problem(path string) string {
	switch {
	case !filepath.IsAbs(path):
		return "must be the absolute path of a Unix socket"
	case len(path) > Longest:
		return fmt.Sprintf("must be at most %d bytes", Longest)
	case strings.ContainsRune(path, 0):
		return "must not contain NUL"
	}
	return ""
}

// A Listener listens on a socket that it has put in its place. If the socket is removed, such as with its directory,
// the listener puts a new one there, within 10 seconds after the directory exists. It leaves a file of another process
// in the place of the socket. Its methods are safe for concurrent use.
type Listener struct {
	path     string
	accepted chan net.Conn
	closed   chan struct{}
	cancel   context.CancelFunc

	mu      sync.Mutex // guards the fields below
	logger  *slog.Logger
	current *net.UnixListener // nil: closed
	id      Identity          // of the socket of current
	pause   time.Duration     // before the next try to restore the socket
	isDue   bool              // a try is to come
}

// Listen creates a socket at an absolute path of at most [Longest] bytes. With replace it takes the place of another
// socket; any other file is an error, as is a socket without replace.
func Listen(path string, replace bool) (*Listener, error) {
	if info, err := os.Lstat(path); err == nil && (!replace || info.Mode().Type() != fs.ModeSocket) {
		return nil, &fs.PathError{Op: "listen", Path: path, Err: errNotReplaced(info)}
	}
	l := &Listener{
		path: path, accepted: make(chan net.Conn), closed: make(chan struct{}), logger: slog.New(slog.DiscardHandler),
	}
	if err := l.listen(replace); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background()) // until Close
	l.cancel = cancel
	go l.follow(ctx)
	return l, nil
}

func errNotReplaced(info fs.FileInfo) error {
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("not a socket")
	}
	return fs.ErrExist
}

// LogTo logs later losses of the socket.
func (l *Listener) LogTo(logger *slog.Logger) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.logger = logger
}

// listen puts a new socket in its place, and accepts its connections. The caller holds mu, or is alone.
func (l *Listener) listen(replace bool) (err error) {
	hidden := hiddenBeside(l.path)
	socket, err := bind(hidden)
	if err != nil {
		return err
	}
	socket.SetUnlinkOnClose(false) // it is at path then
	defer func() {
		if err != nil {
			_ = socket.Close()
			_ = os.Remove(hidden)
		}
	}()
	if err := os.Chmod(hidden, 0o600); err != nil {
		return err
	}
	id, err := Identify(hidden)
	if err != nil {
		return err
	}
	if replace {
		err = os.Rename(hidden, l.path)
	} else if err = os.Link(hidden, l.path); err == nil { // unlike a rename it replaces nothing
		err = recordstore.IgnoreMissing(os.Remove(hidden)) // another process may clean the directory
	}
	if err != nil {
		return err
	}
	l.current, l.id = socket, id
	go l.accept(socket)
	return nil
}

// bind listens on a socket at a path that may be longer than those of sockets.
func bind(path string) (*net.UnixListener, error) {
	if len(path) > Longest {
		dir, err := os.Open(filepath.Dir(path))
		if err != nil {
			return nil, err
		}
		defer func() { _ = dir.Close() }()
		path = fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
	}
	return net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
}

// hiddenBeside returns a new name in the directory of path, which a kubelet ignores.
func hiddenBeside(path string) string {
	return filepath.Join(filepath.Dir(path), "."+rand.Text()[:12])
}

// acceptPause is the pause after a failure, such as of too many open files.
const acceptPause = 100 * time.Millisecond

// accept passes the connections of a socket to Accept until the socket is closed.
func (l *Listener) accept(socket *net.UnixListener) {
	for {
		conn, err := socket.Accept()
		switch {
		case err == nil:
			select {
			case l.accepted <- conn:
			case <-l.closed:
				_ = conn.Close()
				return
			}
		case errors.Is(err, net.ErrClosed): // it has a successor, or the listener is closed
			return
		default:
			l.log("accepting a connection failed", err)
			select {
			case <-time.After(acceptPause):
			case <-l.closed:
				return
			}
		}
	}
}

// watchPause is the pause after the directory of the socket could not be watched.
const watchPause = time.Second

// follow checks the socket after each change of its directory until ctx ends.
func (l *Listener) follow(ctx context.Context) {
	dir := filepath.Dir(l.path)
	for ctx.Err() == nil {
		// Its error says that the directory is missing, was replaced or cannot be watched.
		_ = dirwatch.Watch(ctx, dir, func([]string) { l.check() })
		l.check()
		_ = ctxend.Sleep(ctx, watchPause)
	}
}

// restorePause is the time that who removes the directory has to do so: one that is not empty stays. It doubles with
// each try that fails, up to mostPause.
const (
	restorePause = 100 * time.Millisecond
	mostPause    = 10 * time.Second
)

// check restores a missing socket after a pause.
func (l *Listener) check() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isMissing() {
		l.schedule(restorePause)
	}
}

// schedule plans the next try, unless one is planned. The caller holds mu.
func (l *Listener) schedule(pause time.Duration) {
	if !l.isDue {
		l.isDue, l.pause = true, pause
		time.AfterFunc(pause, l.restore)
	}
}

// isMissing reports whether the listener should have a socket, and has none. The caller holds mu.
func (l *Listener) isMissing() bool {
	_, err := os.Lstat(l.path)
	return l.current != nil && errors.Is(err, fs.ErrNotExist)
}

// restore puts a new socket in place of a missing one, and closes the old one.
func (l *Listener) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.current
	if !l.isMissing() {
		l.isDue = false
		return
	}
	err := l.listen(false)
	l.isDue = false
	if err == nil {
		_ = last.Close()
		l.logger.Warn("the socket was removed, and is back", "socket", l.path)
		return
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) {
		l.logger.Warn("the socket was removed, and a new one failed", "socket", l.path, "err", err)
	}
	l.schedule(min(2*l.pause, mostPause))
}

func (l *Listener) log(message string, err error) {
	l.mu.Lock()
	logger := l.logger
	l.mu.Unlock()
	logger.Warn(message, "socket", l.path, "err", err)
}

// Accept implements [net.Listener].
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.accepted:
		return conn, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "unix", Addr: l.Addr(), Err: net.ErrClosed}
	}
}

// Addr implements [net.Listener].
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// Close ends the listener, and removes its socket unless another one has its place. It moves the socket aside before it
// looks a second time: a process that puts its own in place meanwhile gets it back. A second call returns
// net.ErrClosed.
func (l *Listener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.current == nil {
		return &net.OpError{Op: "close", Net: "unix", Addr: l.Addr(), Err: net.ErrClosed}
	}
	l.cancel()
	close(l.closed)
	err := l.current.Close()
	l.current = nil
	if id, failed := Identify(l.path); failed != nil || !id.IsSame(l.id) {
		return err
	}
	aside := hiddenBeside(l.path)
	if err := os.Rename(l.path, aside); err != nil {
		return err
	}
	if id, err := Identify(aside); err == nil && !id.IsSame(l.id) {
		_ = os.Link(aside, l.path) // fails if a third process has put its own in place
	}
	return os.Remove(aside)
}
