package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/metrics"
	"github.com/volumekit/volumekit/manager"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"
)

func TestOptions(t *testing.T) {
	for text, want := range map[string]string{
		"-help":                   "",
		"":                        "-root: required",
		"-root r -node A_B":       `-node "A_B": `,
		"-root r more":            `unexpected argument "more"`,
		"-root r -disks a,,b":     "an element of the list is empty",
		"-root r -kubeconfig /no": "",
	} {
		var out, failures bytes.Buffer
		status := run(t.Context(), strings.Fields(text), &out, &failures)
		switch {
		case text == "-help":
			require.Zero(t, status)
			require.Contains(t, out.String(), "-kubeconfig FILE")
		case want == "":
			require.Equal(t, 1, status)
			require.Contains(t, failures.String(), "nodeagent: -kubeconfig: ")
		default:
			require.Equal(t, 2, status)
			require.Contains(t, failures.String(), want)
		}
	}
}

// TestJoin: without -register a missing Node is an error, with it the Node is created once and its
// Lease is renewed.
func TestJoin(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	clientset := fake.NewClientset()
	leases := clientset.CoordinationV1().Leases(v1.NamespaceNodeLease)
	a := &agent{options: options{node: "node-1"}, parts: parts{cluster: server.Connect("agent"), leases: leases}}
	_, err := a.join(t.Context())
	require.ErrorContains(t, err, "-register")
	a.register = true
	created, err := a.join(t.Context())
	require.NoError(t, err)
	require.Equal(t, "node-1", created.Labels[v1.LabelHostname])
	found, err := a.join(t.Context())
	require.NoError(t, err)
	require.Equal(t, created, found)

	require.NoError(t, a.heartbeat.renew(t.Context()))
	lease := func() *coordinationv1.Lease {
		lease, err := leases.Get(t.Context(), "node-1", metav1.GetOptions{})
		require.NoError(t, err)
		return lease
	}
	first := lease()
	require.Equal(t, "node-1", *first.Spec.HolderIdentity)
	require.Equal(t, created.UID, first.OwnerReferences[0].UID)
	clientset.ClearActions()
	require.NoError(t, a.heartbeat.renew(t.Context()))
	require.Len(t, clientset.Actions(), 1, "one call for each renewal")
	require.True(t, lease().Spec.RenewTime.After(first.Spec.RenewTime.Time))
	a.heartbeat.last = nil // as after a failure
	clientset.ClearActions()
	require.NoError(t, a.heartbeat.renew(t.Context()))
	require.Equal(t, []string{"get", "update"}, verbsOf(clientset.Actions()))
}

func verbsOf(actions []ktesting.Action) (verbs []string) {
	for _, action := range actions {
		verbs = append(verbs, action.GetVerb())
	}
	return verbs
}

func TestMetrics(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	collector, err := metrics.NewCollector(metrics.Config{})
	require.NoError(t, err)
	collector.Add("volumekit_test_total", 1, manager.Label{Name: "a", Value: "b"})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveMetrics(ctx, listener, collector) }()
	response, err := http.Get("http://" + listener.Addr().String() + "/metrics")
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, errors.Join(err, response.Body.Close()))
	require.Contains(t, string(text), `volumekit_test_total{a="b"} 1`)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
