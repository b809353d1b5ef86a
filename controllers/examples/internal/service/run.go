package service

import (
	"context"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/volumekit/volumekit/internal/tasks"
)

// A Service is the work of a program with its endpoints.
type Service struct {
	Work       func(context.Context) error
	Leadership *Leadership // nil: without leader election
	Collector  prometheus.Collector
}

// Run runs the work until ctx ends, while this process leads, and serves metrics and health unless the
// listener is nil. It closes the listener. It returns nil after ctx ends, and otherwise the first error.
func (s Service) Run(ctx context.Context, listener net.Listener) error {
	work := s.Work
	if s.Leadership != nil {
		work = func(ctx context.Context) error { return s.Leadership.Lead(ctx, s.Work) }
	}
	return tasks.RunAll(ctx, work, func(ctx context.Context) error {
		return Serve(ctx, listener, s.Collector, s.answerHealth)
	})
}

// answerHealth answers 200 unless this replica holds the Lease and could not renew it in time.
func (s Service) answerHealth(w http.ResponseWriter, r *http.Request) {
	if s.Leadership != nil {
		if err := s.Leadership.health.Check(r); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
	}
	_, _ = w.Write([]byte("ok\n"))
}
