package service

import (
	"context"
	"net"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/volumekit/volumekit/internal/tasks"
)

// A Service is the work of a program with its endpoints.
type Service struct {
	Work       func(context.Context) error
	Leadership *Leadership          // nil: without leader election
	Collector  prometheus.Collector // nil: no metrics are served
	// Health returns an error if the process cannot work. Nil: it always can.
	Health func(context.Context) error
}

// Run runs the work until ctx ends, while this process leads, and serves metrics and health unless the
// listener is nil. It closes the listener. It returns nil after ctx ends, and otherwise the first error.
func (s Service) Run(ctx context.Context, listener net.Listener) error {
	work := s.Work
	if s.Leadership != nil {
		work = func(ctx context.Context) error { return s.Leadership.Lead(ctx, s.Work) }
	}
	return tasks.RunAll(ctx, work, func(ctx context.Context) error {
		return Serve(ctx, listener, s.Collector, Checks{"/healthz": s.check})
	})
}

// check returns an error if this replica holds the Lease and could not renew it in time, or cannot work.
func (s Service) check(ctx context.Context) error {
	if s.Leadership != nil {
		if err := s.Leadership.Check(); err != nil {
			return err
		}
	}
	if s.Health != nil {
		return s.Health(ctx)
	}
	return nil
}
