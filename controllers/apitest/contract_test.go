package apitest_test

import (
	"testing"
	"testing/synctest"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
)

func TestContractMemory(t *testing.T) {
	var server *apitest.Server
	apitest.TestCluster(t, apitest.ContractConfig[*testing.T]{
		New: func(*testing.T) api.Cluster {
			server = apitest.NewServer(apitest.Config{})
			return server.Connect("test")
		},
		Compact: func(*testing.T) { server.Compact() },
		Around:  synctest.Test,
	})
}
