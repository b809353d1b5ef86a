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

// Serve serves the metrics of a collector at /metrics and, unless health is nil, the health at /healthz,
// until ctx ends; then it returns nil. It closes the listener before it returns. With a nil listener it
// waits for the end of ctx.
func Serve(ctx context.Context, listener net.Listener, collector prometheus.Collector, health http.HandlerFunc) error {
	if listener == nil {
		<-ctx.Done()
		return nil
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(collector); err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	if health != nil {
		mux.HandleFunc("GET /healthz", health)
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
