package ctrlruntime_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest"
	"github.com/volumekit/volumekit/controllers/ctrlruntime"
	"github.com/volumekit/volumekit/controllers/protect"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// serve serves a process by HTTP until the end of the test.
func serve(t *testing.T, cluster *apitest.Cluster) *rest.Config {
	t.Helper()
	web := httptest.NewServer(cluster.Handler())
	t.Cleanup(web.Close)
	t.Cleanup(web.CloseClientConnections)
	return &rest.Config{Host: web.URL}
}

// A checked manager records its checks of readiness.
type checked struct {
	manager.Manager
	checks map[string]healthz.Checker
}

func (c checked) AddReadyzCheck(name string, check healthz.Checker) error {
	c.checks[name] = check
	return c.Manager.AddReadyzCheck(name, check)
}

func newManager(t *testing.T, config *rest.Config, options ctrl.Options) checked {
	t.Helper()
	options.Metrics = server.Options{BindAddress: "0"}
	mgr, err := ctrl.NewManager(config, options)
	require.NoError(t, err)
	return checked{mgr, map[string]healthz.Checker{}}
}

func isReady(mgr checked, name string) bool {
	return mgr.checks[name](&http.Request{}) == nil
}

// TestHost: the controllers use what their manager has.
func TestHost(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	mgr := newManager(t, serve(t, server.Connect("operator")), ctrl.Options{})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	require.NoError(t, addStorage(ctx, mgr, "shares.example.com", shares{"nfs"}))
	require.False(t, isReady(mgr, "provision"))
	require.False(t, isReady(mgr, "bind"))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	test := server.Direct()
	pv, err := claim(ctx, test, "shares.example.com", "data")
	require.NoError(t, err)
	require.True(t, isReady(mgr, "provision"))
	require.True(t, isReady(mgr, "bind"))

	// One watch of each kind: the controllers and the manager share the caches.
	watched := map[string]int{}
	for _, w := range server.OpenWatches("operator") {
		watched[w.Resource]++
	}
	require.Equal(t, map[string]int{"persistentvolumeclaims": 1, "persistentvolumes": 1, "storageclasses": 1}, watched)

	require.Eventually(t, func() bool {
		events, err := test.Events(v1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		return err == nil && slices.ContainsFunc(events.Items, func(e v1.Event) bool {
			return e.Source.Component == "shares.example.com" && strings.Contains(e.Message, pv.Name)
		})
	}, time.Minute, time.Millisecond)

	families, err := ctrlmetrics.Registry.Gather()
	require.NoError(t, err)
	names := []string{}
	for _, family := range families {
		names = append(names, family.GetName())
	}
	require.Contains(t, names, "controller_persistentvolumeclaim_provision_total", "%s", names)
	require.Contains(t, names, "certwatcher_read_certificate_total", "the registry is the manager's")

	stop()
	require.NoError(t, <-ended)
}

// TestHostsShareMetrics: a process may have several managers, such as in tests.
func TestHostsShareMetrics(t *testing.T) {
	config := serve(t, apitest.NewServer(apitest.Config{}).Connect("operator"))
	first, err := ctrlruntime.New(t.Context(), newManager(t, config, ctrl.Options{}), "a")
	require.NoError(t, err)
	second, err := ctrlruntime.New(t.Context(), newManager(t, config, ctrl.Options{}), "b")
	require.NoError(t, err)
	require.Same(t, first.Metrics, second.Metrics)
}

// A countedLimit counts the calls that it lets pass.
type countedLimit struct {
	flowcontrol.RateLimiter
	calls atomic.Int64
}

func (c *countedLimit) Wait(context.Context) error {
	c.calls.Add(1)
	return nil
}

// TestHostLimitsNoCalls: the limit of the manager's clients is none of the controllers.
func TestHostLimitsNoCalls(t *testing.T) {
	config := serve(t, apitest.NewServer(apitest.Config{}).Connect("operator"))
	limit := &countedLimit{RateLimiter: flowcontrol.NewFakeAlwaysRateLimiter()}
	config.RateLimiter = limit
	host, err := ctrlruntime.New(t.Context(), newManager(t, config, ctrl.Options{}), "a")
	require.NoError(t, err)
	before := limit.calls.Load()
	require.Positive(t, before, "the manager's calls are limited")
	_, err = host.Cluster.Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Equal(t, before, limit.calls.Load())
}

// TestNamespaces: a manager has a cache of some namespaces. The controllers need the claims of all, and open caches of
// their own.
func TestNamespaces(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	mgr := newManager(t, serve(t, server.Connect("operator")), ctrl.Options{
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{"kube-system": {}, "kube-public": {}}}})
	_, err := ctrlruntime.CacheOf[*v1.PersistentVolumeClaim](t.Context(), mgr)
	require.ErrorIs(t, err, ctrlruntime.ErrNamespaces)
	ctx, stop := context.WithCancel(t.Context())
	require.NoError(t, addStorage(ctx, mgr, "shares.example.com", shares{"nfs"}))
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	_, err = claim(ctx, server.Direct(), "shares.example.com", "data")
	require.NoError(t, err)
	require.True(t, isReady(mgr, "provision"))
	stop()
	require.NoError(t, <-ended)
}

// TestOwnCaches: a controller with caches of its own is ready once it leads and has listed.
func TestOwnCaches(t *testing.T) {
	server := apitest.NewServer(apitest.Config{})
	mgr := newManager(t, serve(t, server.Connect("operator")), ctrl.Options{})
	host, err := ctrlruntime.New(t.Context(), mgr, "a")
	require.NoError(t, err)
	controller, err := protect.New(protect.Config{Cluster: host.Cluster})
	require.NoError(t, err)
	require.NoError(t, host.Add("protect", controller))
	require.ErrorContains(t, host.Add("protect", controller), `name: Duplicate value: "protect"`)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	require.Eventually(t, func() bool { return isReady(mgr, "protect") }, time.Minute, time.Millisecond)
	stop()
	require.NoError(t, <-ended)
}

// A standby manager has started and does not lead.
type standby struct{ checked }

func (standby) Elected() <-chan struct{} { return nil }

// TestStandby: a replica without the lead is ready with a controller that opens caches when it runs. Otherwise a new
// replica would wait for the lead of an old one, which waits for the new one to be ready.
func TestStandby(t *testing.T) {
	mgr := newManager(t, serve(t, apitest.NewServer(apitest.Config{}).Connect("operator")), ctrl.Options{})
	host, err := ctrlruntime.New(t.Context(), standby{mgr}, "a")
	require.NoError(t, err)
	controller, err := protect.New(protect.Config{Cluster: host.Cluster})
	require.NoError(t, err)
	require.NoError(t, host.Add("protect", controller))
	require.False(t, isReady(mgr, "protect"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.GetCache().Start(ctx) }()
	require.Eventually(t, func() bool { return isReady(mgr, "protect") }, time.Minute, time.Millisecond)
	require.False(t, controller.Synced())
	stop()
	require.NoError(t, <-ended)
}

// TestContractOfCluster: a client of controller-runtime is a Cluster.
func TestContractOfCluster(t *testing.T) {
	var server *apitest.Server
	apitest.TestCluster(t, apitest.ContractConfig[*testing.T]{
		New: func(t *testing.T) api.Cluster {
			server = apitest.NewServer(apitest.Config{})
			config := serve(t, server.Connect("test"))
			config.QPS = -1
			config.Wrap(withoutRetries)
			c, err := client.NewWithWatch(config, client.Options{})
			require.NoError(t, err)
			return ctrlruntime.NewCluster(c)
		},
		Compact: func(*testing.T) { server.Compact() },
	})
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
