package node_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/node"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inDriverWorld runs test with a reader of CSIDrivers, in a bubble of synctest.
func inDriverWorld(t *testing.T, test func(t *testing.T, server *apitest.Server, drivers *node.CSIDrivers)) {
	synctest.Test(t, func(t *testing.T) {
		server := apitest.NewServer(apitest.Config{})
		drivers, err := node.NewCSIDrivers(node.CSIDriversConfig{Cluster: server.Connect(agent)})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- drivers.Run(ctx) }()
		test(t, server, drivers)
		cancel()
		require.NoError(t, <-ended)
		require.Error(t, drivers.Run(t.Context()), "a second run")
	})
}

func putCSIDriver(t *testing.T, server *apitest.Server, name string) *storagev1.CSIDriver {
	t.Helper()
	object, err := server.Direct().CSIDrivers().Create(t.Context(), &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	return object
}

// TestCSIDriversAreWatched: a later read does not call the API server, and returns the last change,
// also during an outage.
func TestCSIDriversAreWatched(t *testing.T) {
	inDriverWorld(t, func(t *testing.T, server *apitest.Server, drivers *node.CSIDrivers) {
		object := putCSIDriver(t, server, driver)
		got, err := drivers.GetCSIDriver(t.Context(), driver)
		require.NoError(t, err)
		require.True(t, *got.Spec.AttachRequired, "the default of the API server")
		_, err = drivers.GetCSIDriver(t.Context(), "other.example.com")
		require.True(t, apierrors.IsNotFound(err))
		synctest.Wait()
		server.ForgetCalls()
		republish := true
		object.Spec.RequiresRepublish = &republish
		_, err = server.Direct().CSIDrivers().Update(t.Context(), object, metav1.UpdateOptions{})
		require.NoError(t, err)
		putCSIDriver(t, server, "other.example.com")
		synctest.Wait()
		restore := server.Inject(apitest.Fault{Failure: apitest.InternalError})
		server.CutWatches("")
		for range 3 {
			got, err = drivers.GetCSIDriver(t.Context(), driver)
			require.NoError(t, err)
			require.True(t, *got.Spec.RequiresRepublish)
			_, err = drivers.GetCSIDriver(t.Context(), "other.example.com")
			require.NoError(t, err)
		}
		require.Empty(t, server.Calls(apitest.Call{Identity: agent, Verb: "get"}))
		restore()
		require.NoError(t, server.Direct().CSIDrivers().Delete(t.Context(), driver, metav1.DeleteOptions{}))
		time.Sleep(time.Minute)
		_, err = drivers.GetCSIDriver(t.Context(), driver)
		require.True(t, apierrors.IsNotFound(err))
	})
}

// TestCSIDriverInAnOutage: a first read fails with the first list, and not as a missing object, for
// then the defaults would hold.
func TestCSIDriverInAnOutage(t *testing.T) {
	inDriverWorld(t, func(t *testing.T, server *apitest.Server, drivers *node.CSIDrivers) {
		putCSIDriver(t, server, driver)
		missing := func(apitest.Call) error {
			return apierrors.NewGenericServerResponse(404, "list", storagev1.Resource("csidrivers"), "", "no such path", 0, true)
		}
		restore := server.Inject(apitest.Fault{Failure: missing})
		_, err := drivers.GetCSIDriver(t.Context(), driver)
		require.Error(t, err)
		require.False(t, apierrors.IsNotFound(err))
		restore()
		time.Sleep(time.Minute)
		_, err = drivers.GetCSIDriver(t.Context(), driver)
		require.NoError(t, err)

		server.Inject(apitest.Fault{Latency: time.Hour})
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		_, err = drivers.GetCSIDriver(ctx, "other.example.com")
		require.ErrorContains(t, err, "enough")
	})
}

// TestNamesOfCSIDrivers: pods name drivers: invalid names are not read, and many names do not become
// many watches.
func TestNamesOfCSIDrivers(t *testing.T) {
	inDriverWorld(t, func(t *testing.T, server *apitest.Server, drivers *node.CSIDrivers) {
		for _, name := range []string{"", "..", "a/b", "a,metadata.name=b", strings.Repeat("a", 1<<20)} {
			_, err := drivers.GetCSIDriver(t.Context(), name)
			require.True(t, apierrors.IsNotFound(err))
		}
		require.Empty(t, server.Calls(apitest.Call{Identity: agent}))
		putCSIDriver(t, server, "d999.example.com")
		for i := range 1000 {
			_, err := drivers.GetCSIDriver(t.Context(), fmt.Sprintf("d%d.example.com", i))
			require.Equal(t, i == 999, err == nil)
			require.True(t, err == nil || apierrors.IsNotFound(err))
		}
		synctest.Wait()
		require.LessOrEqual(t, len(server.OpenWatches("")), 256)
	})
}

func ExampleCSIDrivers() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	server := apitest.NewServer(apitest.Config{})
	_, _ = server.Direct().CSIDrivers().Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "nfs.example.com"}}, metav1.CreateOptions{})
	drivers, err := node.NewCSIDrivers(node.CSIDriversConfig{Cluster: server.Connect("agent")})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = drivers.Run(ctx) }()
	object, err := drivers.GetCSIDriver(ctx, "nfs.example.com")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(*object.Spec.FSGroupPolicy)
	// Output: ReadWriteOnceWithFSType
}
