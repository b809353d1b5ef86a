package apitest_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// TestKubeContract: a real API server passes the contract, so that the server in memory, which
// passes it too, differs in no rule of the contract.
func TestKubeContract(t *testing.T) {
	server := kubeserver.Start(t)
	// The reader of a compressed stream has a data race between Read and Close.
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL, BearerToken: server.Token, QPS: -1, DisableCompression: true,
		TLSClientConfig: rest.TLSClientConfig{CAData: server.CA}})
	require.NoError(t, err)
	apitest.TestCluster(t, apitest.ContractConfig[*testing.T]{
		New: func(*testing.T) api.Cluster { return kubeclient.New(clientset) },
		Compact: func(t *testing.T) {
			// The API server has a cache of its own, which a restart empties.
			require.NoError(t, server.Compact(t.Context()))
			require.NoError(t, server.Restart(t.Context()))
		},
	})
}
