package connection

import (
	"context"
	"errors"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// TestConn: a driver in the same process is called without a socket, with the same kinds of errors.
func TestConn(t *testing.T) {
	d := csitest.NewDriver(csitest.Config{})
	c, err := Open(Config{Conn: d.Conn(), Driver: "d"})
	require.NoError(t, err)
	info, err := c.Identity().GetPluginInfo(t.Context(), &csipb.GetPluginInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, d.Name(), info.GetName())

	for code, kind := range map[codes.Code]volume.ErrorKind{codes.Internal: volume.Final, codes.Unavailable: volume.Uncertain} {
		d.Inject(csitest.Fault{Code: code, Times: 1})
		_, err = c.Identity().Probe(t.Context(), &csipb.ProbeRequest{})
		require.Equal(t, kind, volume.KindOf(err), "%v", err)
		var call *CallError
		require.True(t, errors.As(err, &call))
		require.Equal(t, code, call.Code)
		require.False(t, IsUnreadable(err))
	}
	require.NoError(t, c.Close())
	_, err = c.Identity().Probe(t.Context(), &csipb.ProbeRequest{})
	require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
	require.Len(t, d.Calls(), 3, "a closed connection calls nothing")
}

// A directConn passes messages to a driver in the same process without a codec.
type directConn struct {
	grpc.ClientConnInterface
	invoke func() error
}

func (c directConn) Invoke(context.Context, string, any, any, ...grpc.CallOption) error {
	return c.invoke()
}

// TestConnWithoutCodec: an error of a connection that ignores the codec is one of a call that has been sent.
func TestConnWithoutCodec(t *testing.T) {
	for code, kind := range map[codes.Code]volume.ErrorKind{
		codes.OK: volume.Success, codes.Internal: volume.Final, codes.Aborted: volume.Uncertain, codes.Unavailable: volume.Uncertain,
	} {
		c, err := Open(Config{Conn: directConn{invoke: func() error { return status.Error(code, "") }}, Driver: "d"})
		require.NoError(t, err)
		_, err = c.Identity().Probe(t.Context(), &csipb.ProbeRequest{})
		require.Equal(t, kind, volume.KindOf(err), "%v", err)
	}
}

// TestHungConn: a call of a connection that ignores its context ends with the context.
func TestHungConn(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	defer close(release)
	c, err := Open(Config{Driver: "d", Conn: directConn{invoke: func() error {
		close(arrived)
		<-release
		return nil
	}}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	_, err = c.Identity().Probe(ctx, &csipb.ProbeRequest{})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
	require.Equal(t, codes.Canceled, status.Code(err))
}
