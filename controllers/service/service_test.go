package service_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/service"
	"k8s.io/client-go/rest"
)

// TestServe: metrics and health are served until ctx ends. The health is optional, and so is the address.
func TestServe(t *testing.T) {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "volumekit_test_total", Help: "Tests."})
	counter.Inc()
	healthy := service.Checks{
		"/healthz": func(context.Context) error { return nil }, "/other": func(context.Context) error { return errors.New("broken") },
	}
	for name, health := range map[string]service.Checks{"with health": healthy, "without": nil} {
		t.Run(name, func(t *testing.T) {
			listener, err := service.Listen(t.Context(), "127.0.0.1:0")
			require.NoError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- service.Serve(ctx, listener, counter, health) }()
			get := func(path string) (status int, text string) {
				response, err := http.Get("http://" + listener.Addr().String() + path)
				require.NoError(t, err)
				body, err := io.ReadAll(response.Body)
				require.NoError(t, errors.Join(err, response.Body.Close()))
				return response.StatusCode, string(body)
			}
			_, text := get("/metrics")
			require.Contains(t, text, "volumekit_test_total 1")
			status, text := get("/healthz")
			if health == nil {
				require.Equal(t, http.StatusNotFound, status)
			} else {
				require.Equal(t, "ok\n", text)
				status, text = get("/other")
				require.Equal(t, http.StatusServiceUnavailable, status)
				require.Equal(t, "broken\n", text)
			}
			cancel()
			require.NoError(t, <-ended)
			require.Error(t, listener.Close(), "the listener is open")
		})
	}
	listener, err := service.Listen(t.Context(), "")
	require.NoError(t, err)
	require.Nil(t, listener)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, service.Serve(ctx, nil, counter, healthy))
}

// TestServeBadCollector: a collector without valid metrics is an error, and the listener is closed.
func TestServeBadCollector(t *testing.T) {
	listener, err := service.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	invalid := prometheus.NewCounter(prometheus.CounterOpts{})
	require.ErrorContains(t, service.Serve(t.Context(), listener, invalid, nil), "not a valid metric name")
	require.Error(t, listener.Close(), "the listener is open")
}

// TestRetry: failures are repeated at most every 30 seconds, an attempt that hangs ends, and Retry ends
// with a success, with ctx, and when it may not repeat a failure.
func TestRetry(t *testing.T) {
	failure, refused, ended := errors.New("failure"), errors.New("refused"), errors.New("ended by the test")
	repeatable := func(err error) bool { return !errors.Is(err, refused) }
	synctest.Test(t, func(t *testing.T) {
		begin, attempts := time.Now(), 0
		result, err := service.Retry(t.Context(), func(ctx context.Context) (string, error) {
			switch attempts++; {
			case attempts == 1:
				<-ctx.Done() // hangs
				return "", ctx.Err()
			case time.Since(begin) < time.Hour:
				return "", failure
			}
			return "done", nil
		}, repeatable)
		require.NoError(t, err)
		require.Equal(t, "done", result)
		require.InDelta(t, 3600/30, attempts, 5)

		_, err = service.Retry(t.Context(), func(context.Context) (string, error) { return "", refused }, repeatable)
		require.ErrorIs(t, err, refused)

		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Minute, func() { cancel(ended) })
		for range 2 { // during a pause, and before the first attempt
			_, err = service.Retry(ctx, func(ctx context.Context) (string, error) {
				return "", errors.Join(failure, ctx.Err())
			}, repeatable)
			require.ErrorIs(t, err, ended)
		}
	})
}

// TestConnect: the configuration is that of the file, and is not changed.
func TestConnect(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(file, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
"contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":"https://server:1"}}]}`), 0o600))
	config, err := service.ClientConfig(file)
	require.NoError(t, err)
	require.Equal(t, "https://server:1", config.Host)
	before := rest.CopyConfig(config)
	client, err := service.Connect(config)
	require.NoError(t, err)
	require.Nil(t, client.CoreV1().RESTClient().GetRateLimiter())
	require.Equal(t, before, config)
	_, err = service.ClientConfig(file + "/none")
	require.Error(t, err)
	t.Setenv("KUBERNETES_SERVICE_HOST", "") // of no pod
	_, err = service.ClientConfig("")
	require.ErrorIs(t, err, rest.ErrNotInCluster)
}

// TestHealth: a process that cannot work is not healthy.
func TestHealth(t *testing.T) {
	listener, err := service.Listen(t.Context(), "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var failure atomic.Pointer[error]
	ended := make(chan error, 1)
	go func() {
		ended <- service.Service{
			Work:      func(ctx context.Context) error { <-ctx.Done(); return nil },
			Collector: prometheus.NewCounter(prometheus.CounterOpts{Name: "volumekit_test_total", Help: "Tests."}),
			Health: func(context.Context) error {
				if err := failure.Load(); err != nil {
					return *err
				}
				return nil
			},
		}.Run(ctx, listener)
	}()
	status := func() int {
		response, err := http.Get("http://" + listener.Addr().String() + "/healthz")
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	require.Equal(t, http.StatusOK, status())
	broken := errors.New("broken")
	failure.Store(&broken)
	require.Equal(t, http.StatusServiceUnavailable, status())
	cancel()
	require.NoError(t, <-ended)
}
