package apitest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/apitest/internal/httpapi"
	"k8s.io/apimachinery/pkg/watch"
)

// A Cluster is the connection of one process to the server. It implements [api.Cluster]. Its
// methods, and its clients, are safe for concurrent use. A call fails with the error of ctx if ctx
// ends before the call takes effect; a watch ends with its ctx.
type Cluster struct {
	server   *Server
	identity string
	exempt   bool // from faults and records
	crashed  chan struct{}
	dead     atomic.Bool // written with Server.mu
}

var _ api.Cluster = (*Cluster)(nil)

// ErrCrashed is the cause of errors of calls by a process that has crashed.
var ErrCrashed = errors.New("the process has crashed")

func newCluster(s *Server, identity string) *Cluster {
	return &Cluster{server: s, identity: identity, crashed: make(chan struct{})}
}

// Crash ends the process from the server's point of view: no further call takes effect, not even a
// call in flight, and all watches end. Errors of the process's calls wrap [ErrCrashed]. A successor
// is a new Cluster, from [Server.Connect]. A second Crash has no effect.
func (c *Cluster) Crash() {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.crash()
}

// crash marks the process as crashed and ends its watches. It requires Server.mu.
func (c *Cluster) crash() {
	if c.dead.Swap(true) {
		return
	}
	close(c.crashed)
	c.server.cutWatches(func(w *watcher) bool { return w.cluster == c })
}

// Crashed returns a channel that is closed when the process crashes, by Crash or a Fault. The test
// then stops the code of the process.
func (c *Cluster) Crashed() <-chan struct{} { return c.crashed }

// cutWatches ends the watches for which of returns true. It requires s.mu.
func (s *Server) cutWatches(of func(*watcher) bool) {
	for _, k := range kinds {
		for _, w := range s.tables[k].allWatchers() {
			if of(w) {
				w.cut()
				s.forget(w)
			}
		}
	}
}

// call runs the effect of a call, and applies faults before and after it.
func (c *Cluster) call(ctx context.Context, call Call, effect func() (any, error)) (result any, err error) {
	if c.exempt {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return effect()
	}
	call.Identity = c.identity
	fault, done := c.server.begin(call)
	defer func() { done(err) }()
	if err := c.wait(ctx, fault.latency); err != nil {
		return nil, err
	}
	if err := c.before(call, fault); err != nil {
		return nil, err
	}
	result, err = effect()
	if err != nil {
		return nil, err
	}
	if fault.late && fault.crash {
		if w, ok := result.(watch.Interface); ok {
			w.Stop()
		}
		c.Crash()
		return nil, crashError(call)
	}
	if fault.late && fault.failure != nil {
		if w, ok := result.(watch.Interface); ok {
			w.Stop()
		}
		return nil, fault.failure(call)
	}
	return result, nil
}

// Handler returns a handler that serves the clients of the process by HTTP, for reconcilers whose clients are those
// of client-go or controller-runtime:
//
//	web := httptest.NewServer(server.Connect("reconciler").Handler())
//	clientset, err := kubernetes.NewForConfig(&rest.Config{Host: web.URL, QPS: -1})
//
// It serves the kinds of [api.Cluster] in the versions that these have, with discovery, JSON and protobuf,
// metadata of objects alone, and deletions of collections; a client needs no credentials. Faults, records and Crash
// are those of the process; a fault that is no error of the API, such as [Refused], aborts the response. A watch
// keeps its connection: end the watches, or call CloseClientConnections, before Close of the httptest.Server.
func (c *Cluster) Handler() http.Handler { return httpapi.New(c) }

// lock locks Server.mu for the effect of a call. If the process has crashed it returns ErrCrashed
// and does not lock.
func (c *Cluster) lock() error {
	c.server.mu.Lock()
	if c.dead.Load() {
		c.server.mu.Unlock()
		return ErrCrashed
	}
	return nil
}

// before returns the error of a fault that comes before the effect of the call, or nil.
func (c *Cluster) before(call Call, fault callFault) error {
	switch {
	case c.dead.Load():
		return crashError(call)
	case fault.late:
		return nil
	case fault.crash:
		c.Crash()
		return crashError(call)
	case fault.failure != nil:
		return fault.failure(call)
	}
	return nil
}

func crashError(call Call) error { return fmt.Errorf("%s: %w", call, ErrCrashed) }

// wait delays a call. It returns early if ctx ends or the process crashes, and returns ctx.Err().
func (c *Cluster) wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		case <-c.crashed:
		}
	}
	return ctx.Err()
}

// begin records a call and chooses its faults. done records its error.
func (s *Server) begin(call Call) (fault callFault, done func(error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	recorded := &call
	s.calls = append(s.calls, recorded)
	return s.faults.ofCall(call), func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		recorded.Err = err
	}
}
