package apicalls_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/apicalls"
)

type transport func(*http.Request) (*http.Response, error)

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) { return t(r) }

func TestRecorder(t *testing.T) {
	const path = "https://server"
	tests := []struct {
		method, url string
		want        apicalls.Call
	}{
		{"GET", "/api/v1/nodes/n", apicalls.Call{Verb: "get", Resource: "nodes", Name: "n"}},
		{"GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn", apicalls.Call{Verb: "list", Resource: "pods", Name: "spec.nodeName=n"}},
		{"GET", "/api/v1/namespaces/ns/secrets?watch=true", apicalls.Call{Verb: "watch", Resource: "secrets", Namespace: "ns"}},
		{"GET", "/api/v1/namespaces/ns", apicalls.Call{Verb: "get", Resource: "namespaces", Name: "ns"}},
		{"POST", "/api/v1/namespaces/ns/serviceaccounts/a/token", apicalls.Call{Verb: "create", Resource: "serviceaccounts/token", Namespace: "ns", Name: "a"}},
		{"POST", "/api/v1/namespaces/ns/events", apicalls.Call{Verb: "create", Resource: "events", Namespace: "ns"}},
		{"PATCH", "/api/v1/nodes/n/status", apicalls.Call{Verb: "patch", Resource: "nodes/status", Name: "n"}},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n", apicalls.Call{Verb: "update", Resource: "leases", Namespace: "kube-node-lease", Name: "n"}},
		{"DELETE", "/apis/storage.k8s.io/v1/volumeattachments/a", apicalls.Call{Verb: "delete", Resource: "volumeattachments", Name: "a"}},
		{"DELETE", "/apis/storage.k8s.io/v1/volumeattachments", apicalls.Call{Verb: "deletecollection", Resource: "volumeattachments"}},
		{"GET", "/readyz", apicalls.Call{Verb: "get", Resource: "/readyz"}},
	}
	var recorder apicalls.Recorder
	answering := recorder.Wrap(transport(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusForbidden}, nil
	}))
	for _, test := range tests {
		request, err := http.NewRequestWithContext(t.Context(), test.method, path+test.url, nil)
		require.NoError(t, err)
		_, err = answering.RoundTrip(request)
		require.NoError(t, err)
		test.want.Code = http.StatusForbidden
		require.Equal(t, []apicalls.Call{test.want}, recorder.Take(), "%s %s", test.method, test.url)
	}
	require.Empty(t, recorder.Take())
	down := recorder.Wrap(transport(func(*http.Request) (*http.Response, error) { return nil, errors.New("down") }))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, path+"/api/v1/nodes/n", nil)
	require.NoError(t, err)
	_, err = down.RoundTrip(request)
	require.Error(t, err)
	require.Equal(t, "get nodes", recorder.Take()[0].Right())
}
