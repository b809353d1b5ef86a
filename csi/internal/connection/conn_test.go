package connection

import (
	"errors"
	"testing"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/volume"
	"google.golang.org/grpc/codes"
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
	}
	require.NoError(t, c.Close())
	_, err = c.Identity().Probe(t.Context(), &csipb.ProbeRequest{})
	require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
	require.Len(t, d.Calls(), 3, "a closed connection calls nothing")
}
