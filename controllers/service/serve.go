package service

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Listen opens a TCP address. For the empty address it returns nil, which Serve accepts.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	if address == "" {
		return nil, nil
	}
	return (&net.ListenConfig{}).Listen(ctx, "tcp", address)
}

// Checks are the health checks of a process by their paths. A path answers 200 and "ok" if its check returns
// nil, and otherwise 503 with the error. The context of a check is that of its request.
type Checks map[string]func(context.Context) error

// Serve serves the metrics of a collector, unless it is nil, at /metrics, and the checks, until ctx ends; then
// it returns nil. It closes the listener before it returns. With a nil listener it waits for the end of ctx.
func Serve(ctx context.Context, listener net.Listener, collector prometheus.Collector, checks Checks) error {
	if listener == nil {
		<-ctx.Done()
		return nil
	}
	mux := http.NewServeMux()
	if collector != nil {
		registry := prometheus.NewRegistry()
		if err := registry.Register(collector); err != nil {
			return errors.Join(err, listener.Close())
		}
		mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	}
	for path, check := range checks {
		mux.HandleFunc("GET "+path, answer(check))
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// answer returns the handler of a check.
func answer(check func(context.Context) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte("ok\n"))
	}
}
