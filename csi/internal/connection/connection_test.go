package connection

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/volume"
)

func TestDialRefusesEndpoints(t *testing.T) {
	for name, test := range map[string]struct {
		endpoint string
		refused  bool
	}{
		"path":      {"/run/csi.sock", false},
		"longest":   {"/" + strings.Repeat("a", 106), false},
		"too long":  {"/" + strings.Repeat("a", 107), true},
		"empty":     {"", true},
		"relative":  {"csi.sock", true},
		"URL":       {"unix:///run/csi.sock", true},
		"abstract":  {"@csi", true},
		"with NUL":  {"/run/csi\x00.sock", true},
		"dots only": {"..", true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Dial(test.endpoint)
			if !test.refused {
				require.NoError(t, err)
				require.NoError(t, c.Close())
				return
			}
			var refused *input.Error
			require.ErrorAs(t, err, &refused)
			require.Equal(t, "endpoint", refused.Field)
			require.Equal(t, volume.Final, volume.KindOf(err))
		})
	}
}

func TestCallsReachTheDriver(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	d := &testDriver{}
	d.serve(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint})
	require.Zero(t, d.accepted.Load(), "Open has connected")
	info, err := c.Identity().GetPluginInfo(t.Context(), &csipb.GetPluginInfoRequest{})
	require.NoError(t, err)
	require.Equal(t, "test.csi.example", info.GetName())
	capacity, err := c.Controller().GetCapacity(t.Context(), &csipb.GetCapacityRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 1, capacity.GetAvailableCapacity())
	require.NoError(t, stage(t, c))
	require.EqualValues(t, 1, d.accepted.Load(), "one connection serves all calls")
}

// TestConcurrentCallsConnectOnce: calls that start together share one connection.
func TestConcurrentCallsConnectOnce(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	d := &testDriver{}
	d.serve(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint})
	var calls sync.WaitGroup
	for range 64 {
		calls.Go(func() {
			if err := stage(t, c); err != nil {
				t.Error(err)
			}
		})
	}
	calls.Wait()
	require.EqualValues(t, 64, d.calls.Load())
	c.mu.Lock()
	defer c.mu.Unlock()
	require.NotNil(t, c.current)
	require.Zero(t, c.current.calls)
	require.False(t, c.current.lost)
}

// TestCallWithoutDriverIsUnsent: the call changes nothing, and the error has the cause.
func TestCallWithoutDriverIsUnsent(t *testing.T) {
	requireNoLeak(t)
	for name, test := range map[string]struct {
		prepare func(endpoint string)
		want    error
	}{
		"no socket":      {func(string) {}, fs.ErrNotExist},
		"no listener":    {func(endpoint string) { require.NoError(t, listen(t, endpoint).Close()) }, fs.ErrNotExist},
		"a regular file": {func(endpoint string) { require.NoError(t, os.WriteFile(endpoint, nil, 0o600)) }, syscall.ECONNREFUSED},
	} {
		t.Run(name, func(t *testing.T) {
			endpoint := socketPath(t)
			test.prepare(endpoint)
			c := dial(t, Config{Endpoint: endpoint, Driver: "test.csi.example"})
			err := stage(t, c)
			require.ErrorIs(t, err, test.want)
			require.Equal(t, volume.Transient, volume.KindOf(err))
			require.Equal(t, codes.Unavailable, status.Code(err))
			require.ErrorContains(t, err, "NodeStageVolume test.csi.example: Unavailable: dial unix ")
		})
	}
}

// TestFirstCallAfterRestartSucceeds: failed calls while the driver is away do not delay the first
// call after its return, as a backoff of gRPC would.
func TestFirstCallAfterRestartSucceeds(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	d := &testDriver{}
	c := dial(t, Config{Endpoint: endpoint})
	for range 3 {
		server := d.serve(t, endpoint)
		require.NoError(t, stage(t, c))
		server.Stop()
		// A call may leave before the end of the connection is known; no later one does.
		require.Contains(t, []volume.ErrorKind{volume.Transient, volume.Uncertain}, volume.KindOf(stage(t, c)))
		for range 20 {
			err := stage(t, c)
			require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
		}
	}
	require.EqualValues(t, 3, d.calls.Load())
}

// TestRedialEndsSession: when gRPC connects anew, which it may do before it has closed the old connection, later calls
// have a session of their own: that of gRPC has a backoff.
func TestRedialEndsSession(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	d := &testDriver{}
	d.serve(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint})
	require.NoError(t, stage(t, c))
	s, err := c.use()
	require.NoError(t, err)
	require.NotNil(t, s)
	conn, err := s.dialForGRPC(t.Context(), "")
	require.NoError(t, err)
	next, err := c.use()
	require.NoError(t, err)
	require.Nil(t, next)
	require.NoError(t, conn.Close())
	s.release()
	require.NoError(t, stage(t, c))
}

// TestGracefulRestart: a driver that ends with GOAWAY is connected again, too.
func TestGracefulRestart(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	d := &testDriver{}
	c := dial(t, Config{Endpoint: endpoint})
	for range 10 {
		server := d.serve(t, endpoint)
		require.NoError(t, stage(t, c))
		server.GracefulStop()
	}
	require.EqualValues(t, 10, d.calls.Load())
}

func TestKindsOfCodes(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	var code codes.Code
	d := &testDriver{stage: func(context.Context, *csipb.NodeStageVolumeRequest) error { return status.Error(code, "why") }}
	d.serve(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint, Driver: "d"})
	uncertain := map[codes.Code]bool{
		codes.Canceled: true, codes.DeadlineExceeded: true, codes.Unavailable: true,
		codes.ResourceExhausted: true, codes.Aborted: true,
	}
	infeasible := map[codes.Code]bool{codes.InvalidArgument: true, codes.OutOfRange: true, codes.NotFound: true}
	for code = codes.Canceled; code <= codes.Unauthenticated; code++ {
		t.Run(code.String(), func(t *testing.T) {
			err := stage(t, c)
			want := volume.Final
			if uncertain[code] {
				want = volume.Uncertain
			}
			require.Equal(t, want, volume.KindOf(err))
			require.Equal(t, code, status.Code(err))
			require.EqualError(t, err, "NodeStageVolume d: "+code.String()+": why")
			expansion := ExpansionError(err)
			require.ErrorIs(t, expansion, err)
			require.Equal(t, infeasible[code], errors.Is(expansion, volume.ErrInfeasible))
			require.Equal(t, code == codes.FailedPrecondition, errors.Is(expansion, volume.ErrFailedPrecondition))
			require.NotErrorIs(t, err, context.Canceled, "ctx has not ended")
			require.NotErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	require.NoError(t, ExpansionError(nil))
	require.NotErrorIs(t, ExpansionError(errors.New("other")), volume.ErrInfeasible)
}

// TestDriverDiesDuringCall: the driver may have acted.
func TestDriverDiesDuringCall(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	called := make(chan struct{})
	d := &testDriver{stage: func(ctx context.Context, _ *csipb.NodeStageVolumeRequest) error {
		called <- struct{}{}
		<-ctx.Done()
		return nil
	}}
	server := d.serve(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint})
	result := make(chan error, 1)
	go func() { result <- stage(t, c) }()
	<-called
	server.Stop()
	err := <-result
	require.Equal(t, volume.Uncertain, volume.KindOf(err), "%v", err)
	require.Equal(t, codes.Unavailable, status.Code(err))
	require.EqualValues(t, 1, d.calls.Load(), "the call is not repeated")
}

// TestHangingDriver: a call ends with its context, and at the connection's timeout, and the request
// may have had its effect.
func TestHangingDriver(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	called := make(chan struct{}, 10)
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	d := &testDriver{stage: func(context.Context, *csipb.NodeStageVolumeRequest) error {
		called <- struct{}{}
		<-ended // also after the deadline, which the driver knows
		return nil
	}}
	d.serve(t, endpoint)
	cause := errors.New("pod is gone")
	t.Run("end of ctx", func(t *testing.T) {
		c := dial(t, Config{Endpoint: endpoint})
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-called
			cancel(cause)
		}()
		_, err := c.Node().NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{})
		require.ErrorIs(t, err, volume.ErrUncertain)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, cause)
	})
	t.Run("timeout", func(t *testing.T) {
		c := dial(t, Config{Endpoint: endpoint, Timeout: 200 * time.Millisecond})
		err := stage(t, c)
		for !errors.Is(err, volume.ErrUncertain) { // on a slow machine the time was over before the call left
			require.Equal(t, volume.Transient, volume.KindOf(err))
			err = stage(t, c)
		}
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, codes.DeadlineExceeded, status.Code(err))
	})
	t.Run("ctx has ended before", func(t *testing.T) {
		c := dial(t, Config{Endpoint: endpoint})
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		_, err := c.Node().NodeStageVolume(ctx, &csipb.NodeStageVolumeRequest{})
		require.ErrorIs(t, err, cause)
		require.Equal(t, volume.Transient, volume.KindOf(err))
		require.Equal(t, codes.Canceled, status.Code(err))
	})
}

// TestSilentListener: a process that accepts connections and says nothing never receives the request.
func TestSilentListener(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	l := listen(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint, Timeout: 200 * time.Millisecond})
	err := stage(t, c)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
	require.NoError(t, l.Close())
}

// TestClosingListener: a process that ends each connection at once never receives the request.
func TestClosingListener(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	l := listen(t, endpoint)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	c := dial(t, Config{Endpoint: endpoint})
	for range 5 {
		err := stage(t, c)
		require.Equal(t, volume.Transient, volume.KindOf(err), "%v", err)
	}
	require.NoError(t, l.Close())
	<-ended
	d := &testDriver{}
	d.serve(t, endpoint)
	require.NoError(t, stage(t, c))
}

func TestClose(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	called := make(chan struct{}, 1)
	d := &testDriver{stage: func(ctx context.Context, _ *csipb.NodeStageVolumeRequest) error {
		called <- struct{}{}
		<-ctx.Done()
		return nil
	}}
	d.serve(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint})
	result := make(chan error, 1)
	go func() { result <- stage(t, c) }()
	<-called
	require.NoError(t, c.Close())
	require.Equal(t, volume.Uncertain, volume.KindOf(<-result), "the call in flight ends")
	require.NoError(t, c.Close())
	err := stage(t, c)
	require.ErrorIs(t, err, errClosed)
	require.Equal(t, volume.Transient, volume.KindOf(err))
}

// TestRestartsDuringCalls: while callers go on, the driver restarts; no call has an effect twice, and
// calls succeed afterwards.
func TestRestartsDuringCalls(t *testing.T) {
	requireNoLeak(t)
	endpoint := socketPath(t)
	d := &testDriver{}
	server := d.serve(t, endpoint)
	c := dial(t, Config{Endpoint: endpoint})
	require.NoError(t, stage(t, c)) // a server that has not begun removes its socket later
	var callers sync.WaitGroup
	var mu sync.Mutex
	kinds := map[volume.ErrorKind]int32{}
	stop := make(chan struct{})
	for range 4 {
		callers.Go(func() {
			for {
				kind := volume.KindOf(stage(t, c))
				mu.Lock()
				kinds[kind]++
				mu.Unlock()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for range 20 {
		server.Stop()
		server = d.serve(t, endpoint)
		require.Eventually(t, func() bool { return stage(t, c) == nil }, time.Minute, time.Millisecond)
		mu.Lock()
		kinds[volume.Success]++
		mu.Unlock()
	}
	close(stop)
	callers.Wait()
	require.NoError(t, stage(t, c))
	require.Zero(t, kinds[volume.Final], "%v", kinds)
	require.LessOrEqual(t, d.calls.Load(), kinds[volume.Success]+kinds[volume.Uncertain]+20+2, "%v", kinds)
}

func TestNoStreams(t *testing.T) {
	c := dial(t, Config{Endpoint: "/none"})
	_, err := c.NewStream(t.Context(), nil, "/csi.v1.Node/Stream")
	require.Equal(t, codes.Unimplemented, status.Code(err))
}
