package socketfile

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// ListenAlone is Listen without replace, and removes the socket of a process that has ended before. It fails if that
// process still serves. It returns soon after ctx ends.
func ListenAlone(ctx context.Context, path string) (*Listener, error) {
	listen := func() (*Listener, error) {
		if err := removeSocket(ctx, path); err != nil {
			return nil, err
		}
		return Listen(path, false)
	}
	l, _, err := keylock.Await(ctx, listening.Key(path), ctxend.Kernel, listen, func(late *Listener, err error) {
		if err == nil {
			_ = late.Close()
		}
	})
	return l, err
}

// listening has the paths of the calls in flight: a file system that does not answer costs one for each.
var listening keylock.Map

var (
	errServed    = errors.New("another process serves this socket")
	errNotSocket = errors.New("the file is not a socket")
)

// removeSocket removes a socket that no process serves.
func removeSocket(ctx context.Context, socket string) error {
	found, err := Identify(socket)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case found.Info.Mode().Type() != fs.ModeSocket:
		return errNotSocket
	}
	const patience = time.Second // a process with a full queue still serves
	dialer := net.Dialer{Timeout: patience}
	connection, err := dialer.DialContext(ctx, "unix", socket)
	timeout := net.Error(nil)
	switch {
	case err == nil:
		return errors.Join(errServed, connection.Close())
	case errors.As(err, &timeout) && timeout.Timeout() && ctx.Err() == nil:
		return errServed
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case !errors.Is(err, syscall.ECONNREFUSED):
		return err
	}
	// Another process may have replaced the socket after the dial: it is moved aside, compared, and linked back then.
	aside := hiddenBeside(socket)
	if err := os.Rename(socket, aside); err != nil {
		return recordstore.IgnoreMissing(err)
	}
	if moved, err := Identify(aside); err == nil && !moved.IsSame(found) {
		_ = os.Link(aside, socket)
		return errors.Join(errServed, os.Remove(aside))
	}
	return os.Remove(aside)
}
