package csitest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// Serve serves the driver on a listener until ctx ends or the driver is killed, and closes the
// listener. It returns nil in both cases.
func (d *Driver) Serve(ctx context.Context, listener net.Listener) error {
	return d.serve(ctx, d.currentLife(), listener)
}

func (d *Driver) currentLife() *life {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.life
}

func (d *Driver) serve(ctx context.Context, l *life, listener net.Listener) error {
	server := grpc.NewServer(grpc.UnaryInterceptor(d.interceptor(l)))
	csipb.RegisterIdentityServer(server, d)
	csipb.RegisterControllerServer(server, d)
	csipb.RegisterNodeServer(server, d)
	stop := context.AfterFunc(ctx, server.Stop)
	defer stop()
	if !l.add(listener, server) {
		return listener.Close()
	}
	err := server.Serve(lifeListener{listener, l})
	if errors.Is(err, grpc.ErrServerStopped) || ctx.Err() != nil || l.hasEnded() {
		return nil
	}
	return err
}

// A lifeListener accepts connections that end with a life.
type lifeListener struct {
	net.Listener
	life *life
}

// Accept implements [net.Listener].
func (l lifeListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if !l.life.add(conn, nil) {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	return conn, nil
}

// add adds a connection or a listener that ends with the life, and a server unless it is nil. It
// returns false if the life has ended.
func (l *life) add(conn io.Closer, server *grpc.Server) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hasEnded() {
		return false
	}
	l.conns = append(l.conns, conn)
	if server != nil {
		l.servers = append(l.servers, server)
	}
	return true
}

// end ends a life: when it returns, all connections are closed. Calls in progress get no answer.
func (l *life) end() {
	l.once.Do(func() { close(l.ended) })
	l.mu.Lock()
	conns, servers := l.conns, l.servers
	l.conns, l.servers = nil, nil
	l.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
	}
	for _, server := range servers {
		go server.Stop() // waits for handlers, and one of them may be the caller
	}
}

// Listen serves the driver at the path of a Unix socket until [Driver.Close], [Driver.Crash] or a
// Fault ends it. An old socket at the path is replaced. [Driver.Restart] listens at the path again.
func (d *Driver) Listen(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("listen at %s: %w", path, err)
	}
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "unix", path)
	if err != nil {
		return fmt.Errorf("listen at %s: %w", path, err)
	}
	if unix, ok := listener.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false) // as after the death of a process
	}
	d.mu.Lock()
	d.path = path
	l := d.life
	d.mu.Unlock()
	go func() { _ = d.serve(context.Background(), l, listener) }()
	return nil
}

// Crash kills the driver: calls in progress end without an answer, those that have not taken effect
// have none, and new calls fail with Unavailable until [Driver.Restart]. The state of the volumes
// remains.
func (d *Driver) Crash() { d.currentLife().end() }

// Restart starts a driver again that was killed, also at the path of Listen. It kills a driver that
// runs.
func (d *Driver) Restart() error {
	d.mu.Lock()
	l, path := d.life, d.path
	d.life = newLife()
	d.mu.Unlock()
	l.end()
	if path == "" {
		return nil
	}
	return d.Listen(path)
}

// Close ends the driver, and removes its socket.
func (d *Driver) Close() error {
	d.Crash()
	d.mu.Lock()
	path := d.path
	d.path = ""
	d.mu.Unlock()
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Conn returns a connection to the driver in the same process. It has no goroutines, buffers or
// files of its own: a call runs in a new goroutine, and returns when the driver answers, when its
// context ends, or when the driver is killed. It may be used in a bubble of testing/synctest.
func (d *Driver) Conn() grpc.ClientConnInterface { return conn{d} }

// A conn is a connection in the same process.
type conn struct{ driver *Driver }

var services = map[string]*grpc.ServiceDesc{
	"csi.v1.Identity":   &csipb.Identity_ServiceDesc,
	"csi.v1.Controller": &csipb.Controller_ServiceDesc,
	"csi.v1.Node":       &csipb.Node_ServiceDesc,
}

// Invoke implements [grpc.ClientConnInterface]. Of the options it uses grpc.ForceCodec.
func (c conn) Invoke(ctx context.Context, fullMethod string, args, reply any, options ...grpc.CallOption) error {
	method, service := methodOf(fullMethod)
	handler := handlerOf(service, method)
	if handler == nil {
		return status.Errorf(codes.Unimplemented, "unknown method %s", fullMethod)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	codec := codecOf(options)
	data, err := codec.Marshal(args)
	if err != nil {
		return status.Errorf(codes.Internal, "encode the request: %v", err)
	}
	data, err = c.call(ctx, handler, data)
	if err != nil {
		return err
	}
	if err := codec.Unmarshal(data, reply); err != nil {
		return status.Errorf(codes.Internal, "decode the response: %v", err)
	}
	return nil
}

// call runs a handler in a goroutine of its own, and returns its encoded response.
func (c conn) call(ctx context.Context, handler methodHandler, request []byte) ([]byte, error) {
	type result struct {
		response []byte
		err      error
	}
	l := c.driver.currentLife()
	results := make(chan result, 1)
	go func() {
		decode := func(in any) error { return protoCodec{}.Unmarshal(request, in) }
		response, err := handler(c.driver, ctx, decode, c.driver.interceptor(l))
		if err != nil {
			results <- result{nil, err}
			return
		}
		data, err := protoCodec{}.Marshal(response)
		if err != nil {
			err = status.Errorf(codes.Internal, "encode the response: %v", err)
		}
		results <- result{data, err}
	}()
	select {
	case r := <-results:
		return r.response, r.err
	case <-l.ended:
		return nil, errCrashed
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	}
}

// NewStream implements [grpc.ClientConnInterface]. The driver has no streams.
func (c conn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "streams are not supported")
}

// A methodHandler is the handler of a grpc.MethodDesc.
type methodHandler = func(server any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error)

func handlerOf(service string, method Method) methodHandler {
	description := services[service]
	if description == nil {
		return nil
	}
	for _, m := range description.Methods {
		if m.MethodName == string(method) {
			return m.Handler
		}
	}
	return nil
}

// codecOf returns the codec of a call.
func codecOf(options []grpc.CallOption) encoding.Codec {
	for _, option := range options {
		if force, ok := option.(grpc.ForceCodecCallOption); ok {
			return force.Codec
		}
	}
	return protoCodec{}
}

// protoCodec encodes messages as a transport does: invalid UTF-8 is an error.
type protoCodec struct{}

func (protoCodec) Name() string { return "proto" }

func (protoCodec) Marshal(v any) ([]byte, error) {
	message, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return proto.Marshal(message)
}

func (protoCodec) Unmarshal(data []byte, v any) error {
	message, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	return proto.Unmarshal(data, message)
}
