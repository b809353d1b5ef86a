package sidecar_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/service"
	"github.com/volumekit/volumekit/csi/csitest"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/csi/sidecar"
)

// A countingConn counts the calls of one replica.
type countingConn struct {
	grpc.ClientConnInterface
	calls atomic.Int32
}

func (c *countingConn) Invoke(ctx context.Context, method string, request, answer any, options ...grpc.CallOption) error {
	c.calls.Add(1)
	return c.ClientConnInterface.Invoke(ctx, method, request, answer, options...)
}

// runReplica runs a sidecar with an identity, under the Lease of the driver. It returns the connection to the driver.
func (w *world) runReplica(identity string, leases *fake.Clientset) (conn *countingConn, stop func()) {
	leadership, err := service.NewLeadership(leases.CoordinationV1(), namespace, "sidecar-"+driverName)
	require.NoError(w, err)
	config := w.config
	conn = &countingConn{ClientConnInterface: w.driver.Conn()}
	config.Conn, config.Cluster, config.Leader = conn, w.server.Connect(identity), leadership
	return conn, w.start(func(ctx context.Context) error { return sidecar.Run(ctx, config) })
}

// TestLeader: of two replicas the holder of the one Lease calls the driver and the API server. After its end the other
// one does.
func TestLeader(t *testing.T) {
	inWorld(t, all, func(w *world) {
		leases := fake.NewClientset()
		w.runOthers()
		w.createClass(nil, nil)
		w.createNode("a", "north")
		first, stop := w.runReplica("first", leases)
		w.settle()
		second, _ := w.runReplica("second", leases)
		create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("one"))
		time.Sleep(time.Minute)
		w.volumeOf("one")
		require.NotZero(w, first.calls.Load())
		require.Zero(w, second.calls.Load())
		require.Empty(w, w.server.Calls(apitest.Call{Identity: "second"}))
		require.Len(w, w.server.OpenWatches("first"), 6, "the companions share caches")

		stop()
		calls := first.calls.Load()
		create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("two"))
		time.Sleep(time.Minute)
		w.volumeOf("two")
		require.NotZero(w, second.calls.Load())
		require.Equal(w, calls, first.calls.Load())
		require.Empty(w, w.server.OpenWatches("first"))
		all, err := leases.CoordinationV1().Leases("").List(w.Context(), metav1.ListOptions{})
		require.NoError(w, err)
		require.Len(w, all.Items, 1)
		require.Equal(w, "sidecar-"+driverName, all.Items[0].Name)
	})
}

// A leaderFunc is a Leader.
type leaderFunc func(ctx context.Context, work func(context.Context) error) error

func (f leaderFunc) Lead(ctx context.Context, work func(context.Context) error) error {
	return f(ctx, work)
}

// leadInTerms leads in terms of ten seconds.
func leadInTerms(ctx context.Context, work func(context.Context) error) error {
	for ctx.Err() == nil {
		term, end := context.WithTimeout(ctx, 10*time.Second)
		err := work(term)
		end()
		if err != nil {
			return err
		}
	}
	return nil
}

// TestTerms: the companions end with each term, also while they wait for the driver, and work in the next one.
func TestTerms(t *testing.T) {
	inWorld(t, all, func(w *world) {
		w.config.Leader = leaderFunc(leadInTerms)
		w.runOthers()
		w.createClass(nil, nil)
		w.createNode("a", "north")
		w.driver.SetReady(false)
		w.run()
		time.Sleep(25 * time.Second)
		require.Empty(w, w.server.OpenWatches("sidecar"))
		w.driver.SetReady(true)
		time.Sleep(time.Minute) // 85 s: in the middle of a term
		create(w, w.cluster.PersistentVolumeClaims(namespace), newClaim("data"))
		w.settle()
		w.volumeOf("data")
		require.Len(w, w.server.OpenWatches("sidecar"), 6, "one for each kind, of the present term")
	})
}

// TestLeaderFails: Run ends with an error of the Leader, and one of the companions.
func TestLeaderFails(t *testing.T) {
	inWorld(t, all, func(w *world) {
		failure := errors.New("the election has failed")
		ctx, cancel := context.WithTimeout(w.Context(), time.Hour)
		defer cancel()
		w.config.Leader = leaderFunc(func(context.Context, func(context.Context) error) error {
			time.Sleep(time.Second)
			return failure
		})
		require.ErrorIs(w, sidecar.Run(ctx, w.config), failure)

		w.config.Leader = leaderFunc(leadInTerms)
		w.config.Conn, w.config.Endpoint = nil, "relative"
		require.ErrorContains(w, sidecar.Run(ctx, w.config), "endpoint")
	})
}

// TestLeaderRegistration: a replica that does not lead registers the driver.
func TestLeaderRegistration(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // short enough for a socket
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	driver := csitest.NewDriver(csitest.Config{Name: driverName, Capabilities: all})
	require.NoError(t, driver.Listen(dir+"/csi.sock"))
	t.Cleanup(func() { require.NoError(t, driver.Close()) })
	server := apitest.NewServer(apitest.Config{})
	w := &world{T: t, server: server, driver: driver}
	stop := w.start(func(ctx context.Context) error {
		return sidecar.Run(ctx, sidecar.Config{
			Endpoint: dir + "/csi.sock", Cluster: server.Connect("sidecar"),
			Registration: &registration.ServerConfig{Dir: dir, Endpoint: dir + "/csi.sock"},
			Leader: leaderFunc(func(ctx context.Context, _ func(context.Context) error) error {
				<-ctx.Done()
				return nil
			}),
		})
	})
	w.requireEventually("the driver is not registered", func() bool {
		info, err := os.Stat(dir + "/" + driverName + "-reg.sock")
		return err == nil && info.Mode().Type() == os.ModeSocket
	})
	require.Empty(t, w.texts(csitest.ControllerGetCapabilities))
	stop()
}
