package connection

import (
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// maxHeaders is the largest size of the headers of an answer, which hold the text of an error.
const maxHeaders = 1 << 20

var errClosed = errors.New("connection is closed")

// A session is a gRPC connection that was connected when it was made. gRPC connects again only for a
// call that finds the session lost, and only while that call lasts: such a session ends with its calls.
type session struct {
	grpc     *grpc.ClientConn
	endpoint string
	first    chan net.Conn // the connection that gRPC uses first
	owner    *Connection

	calls int  // in flight; guarded by owner.mu
	lost  bool // guarded by owner.mu

	closing sync.Once
}

// acquire returns the session for a call, which must release it. It connects if no session exists.
// After an error the request is unsent.
func (c *Connection) acquire(ctx context.Context) (*session, error) {
	if s, err := c.use(); s != nil || err != nil {
		return s, err
	}
	// A lookup of the path that hangs keeps the lock, so that further calls start no further ones.
	s, _, err := keylock.Await(ctx, c.dialing.Key(""), ctxend.Kernel, func() (*session, error) {
		if s, err := c.use(); s != nil || err != nil { // another call has connected meanwhile
			return s, err
		}
		s, err := c.connect(ctx)
		if err != nil {
			return nil, err
		}
		return s, c.adopt(s)
	}, func(s *session, err error) {
		if err == nil {
			s.release()
		}
	})
	return s, err
}

// use returns the current session, if there is one, for one more call.
func (c *Connection) use() (*session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.current != nil {
		c.current.calls++
	}
	return c.current, nil
}

// connect connects to the driver. The gRPC handshake is part of the first call.
func (c *Connection) connect(ctx context.Context) (*session, error) {
	s := &session{endpoint: c.config.Endpoint, first: make(chan net.Conn, 1), owner: c}
	conn, err := s.dial(ctx)
	if err != nil {
		return nil, err
	}
	s.first <- conn
	s.grpc, err = grpc.NewClient("passthrough:///csi",
		grpc.WithContextDialer(s.dialForGRPC),
		grpc.WithTransportCredentials(insecure.NewCredentials()), // the socket is local
		grpc.WithAuthority("localhost"),                          // as the path is not valid as one
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithDisableServiceConfig(),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessage), grpc.MaxCallSendMsgSize(MaxMessage)),
	)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *session) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", s.endpoint)
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: conn, session: s}, nil
}

// dialForGRPC returns the connection of connect, or a new one after its loss.
func (s *session) dialForGRPC(ctx context.Context, _ string) (net.Conn, error) {
	select {
	case conn := <-s.first:
		return conn, nil
	default:
		s.lose() // gRPC dials before it closes the connection that has ended, at times by seconds
		return s.dial(ctx)
	}
}

// A watchedConn tells its session of its end: gRPC closes a connection whose peer has closed it.
type watchedConn struct {
	net.Conn
	session *session
}

// Close marks the session as lost and closes the connection.
func (w *watchedConn) Close() error {
	w.session.lose()
	return w.Conn.Close()
}

// adopt makes a new session the current one, for one call. The caller holds the lock of dialing.
func (c *Connection) adopt(s *session) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		s.close()
		return errClosed
	}
	if s.calls++; !s.lost {
		c.current = s
	}
	c.mu.Unlock()
	return nil
}

// lose keeps new calls from the session.
func (s *session) lose() {
	s.owner.mu.Lock()
	defer s.owner.mu.Unlock()
	s.lost = true
	if s.owner.current == s {
		s.owner.current = nil
	}
	if s.calls == 0 {
		go s.close() // gRPC may call lose with its locks held
	}
}

// release ends a call. The last call of a lost session closes it.
func (s *session) release() {
	s.owner.mu.Lock()
	s.calls--
	isLast := s.lost && s.calls == 0
	s.owner.mu.Unlock()
	if isLast {
		s.close()
	}
}

// close ends the session and its calls.
func (s *session) close() {
	s.closing.Do(func() {
		_ = s.grpc.Close()
		select {
		case conn := <-s.first: // no call has used the session
			_ = conn.Close()
		default:
		}
	})
}
