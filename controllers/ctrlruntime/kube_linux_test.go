package ctrlruntime_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/ctrlruntime"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func configOf(server *kubeserver.Server) *rest.Config {
	// The reader of a compressed stream has a data race between Read and Close.
	return &rest.Config{Host: server.URL, BearerToken: server.Token, DisableCompression: true, TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}}
}

// TestKubeHost: of two replicas on a real API server both are ready, one works, and the other one goes on after it.
func TestKubeHost(t *testing.T) {
	server := kubeserver.Start(t)
	clientset, err := kubernetes.NewForConfig(configOf(server))
	require.NoError(t, err)
	replica := func() (mgr checked, stop func()) {
		mgr = newManager(t, configOf(server), ctrl.Options{
			LeaderElection: true, LeaderElectionID: "shares.example.com", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
		})
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		require.NoError(t, addStorage(ctx, mgr, "shares.example.com", shares{"nfs.example.com"}))
		ended := make(chan error, 1)
		go func() { ended <- mgr.Start(ctx) }()
		return mgr, func() {
			cancel()
			require.NoError(t, <-ended)
		}
	}
	first, stopFirst := replica()
	<-first.Elected()
	second, stopSecond := replica()
	ready := func() bool {
		return isReady(first, "provision") && isReady(first, "bind") && isReady(second, "provision") && isReady(second, "bind")
	}
	require.Eventually(t, ready, time.Minute, 10*time.Millisecond, "a replica without the lead is ready, too")
	cluster := kubeclient.New(clientset)
	pv, err := claim(t.Context(), cluster, "shares.example.com", "first")
	require.NoError(t, err)
	require.Equal(t, "nfs.example.com", pv.Spec.NFS.Server)
	select {
	case <-second.Elected():
		require.Fail(t, "two replicas lead")
	default:
	}
	stopFirst()
	<-second.Elected()
	_, err = claim(t.Context(), cluster, "shares.example.com", "second")
	require.NoError(t, err)
	stopSecond()
}

// TestKubeContractOfCluster: a client of controller-runtime is a Cluster of a real API server.
func TestKubeContractOfCluster(t *testing.T) {
	server := kubeserver.Start(t)
	config := configOf(server)
	config.QPS = -1
	c, err := client.NewWithWatch(config, client.Options{})
	require.NoError(t, err)
	apitest.TestCluster(t, apitest.ContractConfig[*testing.T]{
		New: func(*testing.T) api.Cluster { return ctrlruntime.NewCluster(c) },
		Compact: func(t *testing.T) {
			require.NoError(t, server.Compact(t.Context()))
			require.NoError(t, server.Restart(t.Context()))
		},
	})
}
