package kubeclient_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A versionServer serves one kind in one version, and notes the requests.
type versionServer struct {
	path     string // of the kind's group
	resource string
	version  string
	stuck    chan struct{} // the first request is answered when it is closed; nil: at once
	mu       sync.Mutex
	requests []string
}

func (s *versionServer) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	s.mu.Lock()
	s.requests = append(s.requests, request.Method+" "+request.URL.String()+" "+string(body))
	version, isFirst := s.version, len(s.requests) == 1
	s.mu.Unlock()
	if isFirst && s.stuck != nil {
		<-s.stuck
	}
	answer.Header().Set("Content-Type", "application/json")
	name, ok := strings.CutPrefix(request.URL.Path, s.path+version+"/"+s.resource)
	object := `{"kind":"Kind","apiVersion":"group/` + version + `","metadata":{"name":"a","resourceVersion":"5"},` +
		`"spec":{"trustBundle":"pem"},"driverName":"d","parameters":{"a":"b"}}`
	switch {
	case !ok: // the server has no such path
		http.NotFound(answer, request)
	case strings.HasPrefix(name, "/missing"):
		answer.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(answer, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`)
	case request.URL.Query().Get("watch") != "":
		_, _ = io.WriteString(answer, `{"type":"ADDED","object":`+object+`}{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`+
			`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","code":410,"reason":"Expired"}}`)
	case name == "" && request.Method == http.MethodGet:
		_, _ = io.WriteString(answer, `{"metadata":{"resourceVersion":"7"},"items":[`+object+`]}`)
	default:
		_, _ = io.WriteString(answer, object)
	}
}

// connect starts the server for a test and returns its clients.
func (s *versionServer) connect(t *testing.T) api.Cluster {
	listening := httptest.NewServer(s)
	t.Cleanup(listening.Close)
	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: listening.URL, QPS: -1})
	require.NoError(t, err)
	return kubeclient.New(clientset)
}

// startBundles returns the client of a server that has a version of the API.
func startBundles(t *testing.T, version string) (api.ClusterTrustBundles, *versionServer) {
	s := &versionServer{path: "/apis/certificates.k8s.io/", resource: "clustertrustbundles", version: version}
	return s.connect(t).ClusterTrustBundles(), s
}

// TestTrustBundleVersionChanges: a server that has another version after an upgrade is read again.
func TestTrustBundleVersionChanges(t *testing.T) {
	bundles, server := startBundles(t, "v1beta1")
	_, err := bundles.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	server.mu.Lock()
	server.version = "v1"
	server.mu.Unlock()
	_, err = bundles.List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
}

// TestTrustBundleVersions: the client uses the version that the server has, and searches for it once.
func TestTrustBundleVersions(t *testing.T) {
	for _, version := range []string{"v1", "v1beta1", "v1alpha1"} {
		t.Run(version, func(t *testing.T) {
			bundles, server := startBundles(t, version)
			for range 3 {
				b, err := bundles.Get(t.Context(), "a", metav1.GetOptions{})
				require.NoError(t, err)
				require.Equal(t, "pem", b.Spec.TrustBundle)
				require.Zero(t, b.TypeMeta)
			}
			last := server.requests[len(server.requests)-3:]
			for _, request := range last {
				require.Equal(t, "GET /apis/certificates.k8s.io/"+version+"/clustertrustbundles/a ", request)
			}
			require.LessOrEqual(t, len(server.requests), 3+3)
		})
	}
}

// TestNoTrustBundleVersion: without the API each call fails with the error 404.
func TestNoTrustBundleVersion(t *testing.T) {
	bundles, _ := startBundles(t, "v9")
	_, err := bundles.List(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = bundles.Watch(t.Context(), metav1.ListOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	_, err = bundles.Create(t.Context(), &certificatesv1alpha1.ClusterTrustBundle{}, metav1.CreateOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestTrustBundleReads(t *testing.T) {
	bundles, server := startBundles(t, "v1beta1")
	list, err := bundles.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.signerName=x", LabelSelector: "a=b"})
	require.NoError(t, err)
	require.Equal(t, "7", list.ResourceVersion)
	require.Len(t, list.Items, 1)
	require.Contains(t, server.requests[len(server.requests)-1], "fieldSelector=spec.signerName%3Dx&labelSelector=a%3Db")
	_, err = bundles.Get(t.Context(), "missing", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err), "%v", err)

	w, err := bundles.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "7"})
	require.NoError(t, err)
	defer w.Stop()
	added := <-w.ResultChan()
	require.Equal(t, watch.Added, added.Type)
	require.Equal(t, "a", added.Object.(*certificatesv1alpha1.ClusterTrustBundle).Name)
	require.Equal(t, "9", (<-w.ResultChan()).Object.(*certificatesv1alpha1.ClusterTrustBundle).ResourceVersion)
	failed := <-w.ResultChan()
	require.Equal(t, watch.Error, failed.Type)
	require.True(t, apierrors.IsResourceExpired(apierrors.FromObject(failed.Object)))
	_, more := <-w.ResultChan()
	require.False(t, more)
}

func TestTrustBundleWrites(t *testing.T) {
	bundles, server := startBundles(t, "v1")
	b := &certificatesv1alpha1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	_, err := bundles.Create(t.Context(), b, metav1.CreateOptions{})
	require.NoError(t, err)
	require.Zero(t, b.TypeMeta, "the object of the caller")
	_, err = bundles.Update(t.Context(), b, metav1.UpdateOptions{FieldManager: "test"})
	require.NoError(t, err)
	_, err = bundles.Patch(t.Context(), "a", types.MergePatchType, []byte(`{}`), metav1.PatchOptions{})
	require.NoError(t, err)
	uid := types.UID("1")
	require.NoError(t, bundles.Delete(t.Context(), "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}))
	const path = "/apis/certificates.k8s.io/v1/clustertrustbundles"
	for i, want := range []string{"POST " + path + " ", "PUT " + path + "/a?fieldManager=test ", "PATCH " + path + "/a {}", "DELETE " + path + "/a "} {
		require.True(t, strings.HasPrefix(server.requests[i], want), server.requests[i])
	}
	var sent metav1.TypeMeta
	require.NoError(t, json.Unmarshal([]byte(strings.SplitN(server.requests[0], " ", 3)[2]), &sent))
	require.Equal(t, metav1.TypeMeta{Kind: "ClusterTrustBundle", APIVersion: "certificates.k8s.io/v1"}, sent)
	require.Contains(t, server.requests[3], `"uid":"1"`)
}

// TestTrustBundleSearchIsStuck: a request that the server does not answer delays no other call, and
// ends with its ctx.
func TestTrustBundleSearchIsStuck(t *testing.T) {
	bundles, server := startBundles(t, "v1")
	server.stuck = make(chan struct{})
	defer close(server.stuck)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := bundles.List(ctx, metav1.ListOptions{})
		ended <- err
	}()
	for server.count() == 0 {
		time.Sleep(time.Millisecond)
	}
	_, err := bundles.Get(t.Context(), "a", metav1.GetOptions{})
	require.NoError(t, err)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// count returns the number of requests so far.
func (s *versionServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}
