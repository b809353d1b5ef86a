package connection

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/util/ctxend"
)

// Invoke calls a method of the driver: the clients of the CSI services call it. It returns when the
// driver has answered, and at the end of ctx or of the connection's timeout. The error is a
// [*CallError], whose kind says whether the driver may have acted: see there.
//
// A call waits for nothing but the driver: calls to other endpoints do not delay it.
func (c *Connection) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	within, cancel := context.WithTimeout(ctx, c.config.Timeout)
	defer cancel()
	call := call{driver: c.config.Driver, method: method, request: request}
	if within.Err() != nil {
		return call.unsent(within, context.Cause(within))
	}
	conn, release, err := c.conn(within)
	if err != nil {
		return call.unsent(within, err)
	}
	defer release()
	if c.config.Conn != nil {
		call.codec, err = invokeInProcess(within, conn, method, request, answer, options)
	} else {
		err = conn.Invoke(within, method, request, answer, append(slices.Clip(options), grpc.ForceCodec(&call.codec))...)
	}
	return call.result(within, err)
}

// invokeInProcess calls a driver in the same process. Its connection may pass messages without a codec, so
// that each error is one of a call that has been sent, and may end later than ctx.
func invokeInProcess(ctx context.Context, conn grpc.ClientConnInterface, method string, request, answer any, options []grpc.CallOption) (codec, error) {
	used, err := ctxend.Await(ctx, ctxend.Kernel, func() (codec, error) {
		var used codec
		err := conn.Invoke(ctx, method, request, answer, append(slices.Clip(options), grpc.ForceCodec(&used))...)
		return used, err
	}, nil)
	used.encoded = true
	if _, isStatus := status.FromError(err); !isStatus && ctx.Err() != nil {
		err = status.FromContextError(ctx.Err()).Err()
	}
	return used, err
}

// conn returns the connection for one call, and the function that ends its use.
func (c *Connection) conn(ctx context.Context) (grpc.ClientConnInterface, func(), error) {
	if c.config.Conn == nil {
		s, err := c.acquire(ctx)
		if err != nil {
			return nil, nil, err
		}
		return s.grpc, s.release, nil
	}
	if _, err := c.use(); err != nil {
		return nil, nil, err // closed
	}
	return c.config.Conn, func() {}, nil
}

// NewStream fails: the services of this package have no streams.
func (c *Connection) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "streams are not supported")
}

// A call is one call of a driver.
type call struct {
	driver, method string
	request        any
	codec          codec
}

// result returns the error of a call that gRPC has ended with err.
func (c *call) result(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	result := c.newError(err)
	switch {
	case c.codec.refused != nil:
		return result // final: the same request is refused again
	case !c.codec.encoded:
		return c.unsent(ctx, err)
	case c.codec.unreadable, isUnreadable(err):
		result.Code = codes.Internal
		result.setUncertain(ctx)
	case isUnknownOutcome(err):
		result.setUncertain(ctx)
	}
	return result
}

// unsent returns the error of a call whose request has not left.
func (c *call) unsent(ctx context.Context, err error) error {
	result := c.newError(err)
	if result.Code == codes.Unknown { // not of gRPC
		result.Code = status.FromContextError(ctx.Err()).Code()
		if ctx.Err() == nil {
			result.Code = codes.Unavailable
		}
	}
	result.setTransient(ctx, err)
	return result
}

// isUnknownOutcome reports whether the driver may have acted, or act later, in spite of the error.
func isUnknownOutcome(err error) bool {
	s, ok := status.FromError(err)
	if !ok {
		return true // not an answer of a driver
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return true
	}
	return false
}
