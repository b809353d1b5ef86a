package apitest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// serve serves a process by HTTP until the end of the test.
func serve(t *testing.T, cluster *apitest.Cluster) *rest.Config {
	t.Helper()
	web := httptest.NewServer(cluster.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections) // of watches
	return &rest.Config{Host: web.URL, QPS: -1}
}

func newClientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return clientset
}

// TestContractHTTP: a clientset sees the same API server by HTTP, in each of its encodings.
func TestContractHTTP(t *testing.T) {
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		t.Run(strings.ReplaceAll(contentType, "/", "."), func(t *testing.T) {
			t.Parallel()
			var server *apitest.Server
			apitest.TestCluster(t, apitest.ContractConfig[*testing.T]{
				New: func(t *testing.T) api.Cluster {
					server = apitest.NewServer(apitest.Config{})
					config := serve(t, server.Connect("test"))
					config.ContentType = contentType
					config.Wrap(withoutRetries)
					return kubeclient.New(newClientset(t, config))
				},
				Compact: func(*testing.T) { server.Compact() },
			})
		})
	}
}

// withoutRetries removes what makes client-go repeat a request, ten times after a second each.
func withoutRetries(transport http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := transport.RoundTrip(r)
		if err == nil {
			response.Header.Del("Retry-After")
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestHTTPFaults: a client receives the faults of its process as it receives those of a real server.
func TestHTTPFaults(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	process := server.Connect("reconciler")
	configMaps := newClientset(t, serve(t, process)).CoreV1().ConfigMaps("default")
	hit := func(failure apitest.Failure) error {
		defer server.Inject(apitest.Fault{Call: apitest.Call{Verb: apitest.Create}, Failure: failure})()
		_, err := configMaps.Create(t.Context(), newConfigMap("a"), metav1.CreateOptions{})
		return err
	}
	require.True(t, apierrors.IsConflict(hit(apitest.Conflict)))
	require.True(t, apierrors.IsForbidden(hit(apitest.Forbidden)))
	require.True(t, apierrors.IsUnauthorized(hit(apitest.Unauthorized)))
	require.True(t, apierrors.IsInternalError(hit(apitest.InternalError)))
	require.True(t, apierrors.IsResourceExpired(hit(apitest.Expired)))
	denied := apierrors.APIStatus(nil)
	require.ErrorAs(t, hit(apitest.Denied(406)), &denied)
	require.EqualValues(t, 406, denied.Status().Code)
	lost := (*url.Error)(nil)
	require.ErrorAs(t, hit(apitest.Refused), &lost, "a fault of the connection is one")
	_, err := configMaps.Get(t.Context(), "a", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))

	calls := server.Calls(apitest.Call{Identity: "reconciler", Verb: apitest.Get, Resource: "configmaps", Namespace: "default", Name: "a"})
	require.Len(t, calls, 1)
	require.True(t, apierrors.IsNotFound(calls[0].Err))

	events, err := configMaps.Watch(t.Context(), metav1.ListOptions{LabelSelector: "a=b"})
	require.NoError(t, err)
	require.Equal(t, []apitest.OpenWatch{{Identity: "reconciler", Resource: "configmaps", Namespace: "default", LabelSelector: "a=b"}},
		server.OpenWatches("reconciler"))
	server.CutWatches("reconciler")
	_, open := <-events.ResultChan()
	require.False(t, open, "the watch ends with that of the process")

	process.Crash()
	_, err = configMaps.Create(t.Context(), newConfigMap("a"), metav1.CreateOptions{})
	require.ErrorAs(t, err, &lost)
}

// TestHTTPRetryAfter: the server asks a client to come back, and client-go does.
func TestHTTPRetryAfter(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	web := httptest.NewServer(server.Connect("reconciler").Handler())
	defer web.Close()
	server.Inject(apitest.Fault{Failure: apitest.TooManyRequests(7 * time.Second)})
	response, err := http.Get(web.URL + "/api/v1/nodes")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusTooManyRequests, response.StatusCode)
	require.Equal(t, "7", response.Header.Get("Retry-After"))
}

// TestHTTPWatchEndsWithClient: a client that is gone leaves no watch behind.
func TestHTTPWatchEndsWithClient(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	clientset := newClientset(t, serve(t, server.Connect("reconciler")))
	ctx, cancel := context.WithCancel(t.Context())
	events, err := clientset.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, server.OpenWatches("reconciler"), 1)
	cancel()
	events.Stop()
	require.Eventually(t, func() bool { return len(server.OpenWatches("reconciler")) == 0 }, time.Minute, time.Millisecond)
}

// TestHTTPMetadata: clients may ask for the metadata of objects alone, and for objects without a type.
func TestHTTPMetadata(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	config := serve(t, server.Connect("reconciler"))
	untyped, err := dynamic.NewForConfig(config)
	require.NoError(t, err)
	resource := v1.SchemeGroupVersion.WithResource("configmaps")
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"key": "value"}}}
	created, err := untyped.Resource(resource).Namespace("default").Create(t.Context(), object, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Equal(t, "ConfigMap", created.GetKind())

	partial, err := metadata.NewForConfig(config)
	require.NoError(t, err)
	events, err := partial.Resource(resource).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer events.Stop()
	event := <-events.ResultChan()
	require.Equal(t, watch.Added, event.Type)
	require.IsType(t, &metav1.PartialObjectMetadata{}, event.Object)
	list, err := partial.Resource(resource).Namespace("default").List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.NotEmpty(t, list.ResourceVersion)
	require.Len(t, list.Items, 1)
	require.Equal(t, created.GetUID(), list.Items[0].UID)
	one, err := partial.Resource(resource).Namespace("default").Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "a", one.Name)

	require.NoError(t, untyped.Resource(resource).Namespace("default").DeleteCollection(t.Context(), metav1.DeleteOptions{}, metav1.ListOptions{}))
	_, err = server.Direct().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err))
}

// TestHTTPDiscovery: clients find all resources, with their scopes and subresources.
func TestHTTPDiscovery(t *testing.T) {
	discovery := newClientset(t, serve(t, apitest.NewServer(apitest.Config{}).Connect("reconciler"))).Discovery()
	version, err := discovery.ServerVersion()
	require.NoError(t, err)
	require.Equal(t, "v1.32.0", version.GitVersion)
	groups, lists, err := discovery.ServerGroupsAndResources()
	require.NoError(t, err)
	names := []string{}
	for _, group := range groups {
		names = append(names, group.Name+":"+group.PreferredVersion.Version)
	}
	require.Equal(t, []string{":v1", "storage.k8s.io:v1", "certificates.k8s.io:v1alpha1"}, names)
	found := map[string]bool{}
	for _, list := range lists {
		for _, r := range list.APIResources {
			found[fmt.Sprintf("%s %s %s %v", list.GroupVersion, r.Name, r.Kind, r.Namespaced)] = true
		}
	}
	require.Len(t, found, 16+6+1) // kinds, status, token
	for _, want := range []string{"v1 pods Pod true", "v1 pods/status Pod true", "v1 serviceaccounts/token TokenRequest true",
		"storage.k8s.io/v1 storageclasses StorageClass false", "storage.k8s.io/v1beta1 volumeattributesclasses VolumeAttributesClass false"} {
		require.True(t, found[want], want)
	}
}

// TestHTTPRequests: requests that no client library makes, or makes with a defect, get the answer of an API server.
func TestHTTPRequests(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	_, err := server.Direct().ConfigMaps("default").Create(t.Context(), newConfigMap("a"), metav1.CreateOptions{})
	require.NoError(t, err)
	web := httptest.NewServer(server.Connect("reconciler").Handler())
	defer web.Close()
	const (
		configMap = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"}}`
		inDefault = "/api/v1/namespaces/default/"
	)
	for _, test := range []struct {
		name, method, path, contentType, accept, body string
		code                                          int
		answer                                        string // a part of it
	}{
		{name: "health", method: "GET", path: "/readyz", code: 200, answer: "ok"},
		{name: "the root", method: "GET", path: "/", code: 404, answer: "404 page not found"},
		{name: "a version that is not served", method: "GET", path: "/apis/storage.k8s.io/v2/csinodes", code: 404, answer: "404 page not found"},
		{name: "an unknown resource", method: "GET", path: "/api/v1/endpoints", code: 404, answer: "404 page not found"},
		{name: "a subresource that the kind lacks", method: "GET", path: inDefault + "configmaps/a/status", code: 404, answer: "404 page not found"},
		{name: "a node in a namespace", method: "GET", path: inDefault + "nodes", code: 404, answer: "404 page not found"},
		{name: "an object without its namespace", method: "GET", path: "/api/v1/configmaps/a", code: 404, answer: "404 page not found"},
		{name: "an empty segment", method: "GET", path: "/api/v1//configmaps", code: 404, answer: "404 page not found"},
		{name: "too many segments", method: "GET", path: inDefault + "pods/a/status/b", code: 404, answer: "404 page not found"},
		{name: "a missing object", method: "GET", path: inDefault + "configmaps/b", code: 404, answer: `"reason":"NotFound"`},
		{name: "an object", method: "GET", path: inDefault + "configmaps/a", code: 200, answer: `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a"`},
		{name: "a namespace", method: "GET", path: "/api/v1/namespaces/default", code: 200, answer: `"kind":"Namespace"`},
		{name: "a namespace's status", method: "GET", path: "/api/v1/namespaces/default/status", code: 200, answer: `"kind":"Namespace"`},
		{name: "a client that takes tables first", method: "GET", path: inDefault + "configmaps", accept: "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
			code: 200, answer: `"kind":"ConfigMapList"`},
		{name: "a browser", method: "GET", path: inDefault + "configmaps", accept: "text/html,*/*;q=0.8", code: 200, answer: `"kind":"ConfigMapList"`},
		{name: "a client of another encoding", method: "GET", path: inDefault + "configmaps", accept: "text/html", code: 406, answer: `"reason":"NotAcceptable"`},
		{name: "creation without a namespace", method: "POST", path: "/api/v1/configmaps", body: configMap, code: 405, answer: `"reason":"MethodNotAllowed"`},
		{name: "creation by a name", method: "POST", path: inDefault + "configmaps/a", body: configMap, code: 405, answer: `"reason":"MethodNotAllowed"`},
		{name: "no JSON", method: "POST", path: inDefault + "configmaps", body: "{", code: 400, answer: `"reason":"BadRequest"`},
		{name: "no object", method: "POST", path: inDefault + "configmaps", body: "[]", code: 400, answer: `"reason":"BadRequest"`},
		{name: "YAML", method: "POST", path: inDefault + "configmaps", contentType: "application/yaml", body: "metadata: {name: yaml}", code: 201, answer: `"name":"yaml"`},
		{name: "an object of another kind", method: "POST", path: inDefault + "configmaps", body: `{"kind":"Pod","apiVersion":"v1"}`, code: 400, answer: "v1.Pod"},
		{name: "an unknown kind", method: "POST", path: inDefault + "configmaps", body: `{"kind":"Dog","apiVersion":"v1"}`, code: 400, answer: "Dog"},
		{name: "an unknown encoding", method: "POST", path: inDefault + "configmaps", contentType: "text/plain", body: configMap, code: 415, answer: `"reason":"UnsupportedMediaType"`},
		{name: "a body that is too long", method: "POST", path: inDefault + "configmaps", body: strings.Repeat(" ", 3<<20) + configMap, code: 413, answer: `"reason":"RequestEntityTooLarge"`},
		{name: "an existing object", method: "POST", path: inDefault + "configmaps", body: configMap, code: 409, answer: `"reason":"AlreadyExists"`},
		{name: "another name", method: "PUT", path: inDefault + "configmaps/b", body: configMap, code: 400, answer: "the name in the path"},
		{name: "another namespace", method: "PUT", path: "/api/v1/namespaces/kube-system/configmaps/a", body: `{"metadata":{"name":"a","namespace":"default"}}`, code: 400, answer: "namespace"},
		{name: "a patch of an unknown type", method: "PATCH", path: inDefault + "configmaps/a", contentType: "text/plain", body: "{}", code: 415, answer: `"reason":"UnsupportedMediaType"`},
		{name: "a patch without a type", method: "PATCH", path: inDefault + "configmaps/a", contentType: "/", body: "{}", code: 415, answer: `"reason":"UnsupportedMediaType"`},
		{name: "an unknown field", method: "POST", path: inDefault + "configmaps?fieldValidation=Strict", body: `{"metadata":{"name":"b"},"dat":{}}`, code: 400, answer: `unknown field \"dat\"`},
		{name: "an unknown field, unnoticed", method: "POST", path: inDefault + "configmaps?dryRun=All", body: `{"metadata":{"name":"b"},"dat":{}}`, code: 201, answer: `"name":"b"`},
		{name: "a watch in YAML", method: "GET", path: inDefault + "configmaps?watch=true", accept: "application/yaml", code: 406, answer: "reason: NotAcceptable"},
		{name: "metadata of another version", method: "GET", path: inDefault + "configmaps/a", accept: "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v2", code: 406, answer: `"reason":"NotAcceptable"`},
		{name: "metadata of no object", method: "GET", path: "/api/v1/nodes", accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", code: 200, answer: `"items":[]`},
		{name: "metadata of a list", method: "GET", path: inDefault + "configmaps", accept: "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1", code: 200, answer: `"kind":"PartialObjectMetadata",`},
		{name: "a head", method: "HEAD", path: inDefault + "configmaps/a", code: 200},
		{name: "a document by POST", method: "POST", path: "/api", code: 404, answer: "404 page not found"},
		{name: "a forged page", method: "GET", path: inDefault + "configmaps?continue=eyJydiI6OTk5OTksInN0YXJ0Ijp7fX0", code: 504, answer: `"reason":"Timeout"`},
		{name: "a watch that ends", method: "GET", path: inDefault + "configmaps?watch=true&timeoutSeconds=1&resourceVersion=0", code: 200, answer: `"type":"ADDED"`},
		{name: "a token", method: "POST", path: "/api/v1/namespaces/kube-system/serviceaccounts/default/token", body: "{}", code: 404, answer: `"reason":"NotFound"`},
		{name: "a token by GET", method: "GET", path: inDefault + "serviceaccounts/default/token", code: 405, answer: `"reason":"MethodNotAllowed"`},
		{name: "deletion with options of another kind", method: "DELETE", path: inDefault + "configmaps/a", body: configMap, code: 400, answer: "v1.ConfigMap"},
		{name: "deletion of all in all namespaces", method: "DELETE", path: "/api/v1/configmaps", code: 405, answer: `"reason":"MethodNotAllowed"`},
		{name: "a query that is no option", method: "GET", path: inDefault + "configmaps?limit=many", code: 400, answer: `"reason":"BadRequest"`},
		{name: "a watch from no version", method: "GET", path: inDefault + "configmaps?watch=true&resourceVersion=x", code: 400, answer: `"reason":"BadRequest"`},
		{name: "deletion", method: "DELETE", path: inDefault + "configmaps/a?dryRun=All", code: 200, answer: `"status":"Success"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), test.method, web.URL+test.path, strings.NewReader(test.body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", test.contentType)
			if test.accept != "" {
				r.Header.Set("Accept", test.accept)
			}
			response, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			answer, err := io.ReadAll(response.Body)
			require.NoError(t, errors.Join(err, response.Body.Close()))
			require.Equal(t, test.code, response.StatusCode, "%s", answer)
			require.Contains(t, string(answer), test.answer)
		})
	}
	_, err = server.Direct().ConfigMaps("default").Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err, "a dry run deletes nothing")
}
