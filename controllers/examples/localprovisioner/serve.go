package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/volumekit/volumekit/util/fsusage"
)

// healthTime is the time in which the file systems have to answer.
const healthTime = 5 * time.Second

// serve serves metrics and health until ctx ends. Without a listener it waits.
func (p *program) serve(ctx context.Context, listener net.Listener) error {
	if listener == nil {
		<-ctx.Done()
		return nil
	}
	registry := prometheus.NewRegistry()
	if err := registry.Register(p.collector); err != nil {
		return errors.Join(err, listener.Close())
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", p.health)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("-listen: %w", err)
	}
	return nil
}

// health answers 200 if the file system of each directory of -claims answers. It makes no call to the
// API server: an outage there is no reason to restart the program.
func (p *program) health(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), healthTime)
	defer cancel()
	for _, dir := range p.claims {
		if _, err := fsusage.Stat(ctx, dir); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = fmt.Fprintln(w, "ok")
}
