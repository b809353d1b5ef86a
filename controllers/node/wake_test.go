package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestProxyDoesNotKnowTheNode: a 404 of a proxy is no end of the node.
func TestProxyDoesNotKnowTheNode(t *testing.T) {
	inAttachWorld(t, func(w *attachWorld) {
		w.start()
		w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch, Identity: agent}, Times: 1, Failure: apitest.Conflict})
		w.server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Get, Identity: agent}, Times: 1, Failure: func(apitest.Call) error {
			return apierrors.NewGenericServerResponse(404, "get", v1.Resource("nodes"), "node-1", "", 0, true)
		}})
		w.use("example.com/disk")
		time.Sleep(time.Hour)
		require.Equal(t, names{"example.com/disk"}, w.inUse())
	})
}
