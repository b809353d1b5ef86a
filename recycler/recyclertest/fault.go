package recyclertest

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// An Op is a call of the client, or of one of its watches.
type Op string

// The calls.
const (
	Create Op = "Create"
	Get    Op = "Get"
	Delete Op = "Delete"
	List   Op = "List"
	Watch  Op = "Watch"
	Next   Op = "Next"
)

// Ops are all calls.
var Ops = []Op{Create, Get, Delete, List, Watch, Next}

// A Call is one that is about to be done.
type Call struct {
	Op Op
	// Pod is as the caller has said: of Get and Delete the names (and UID), of List the
	// namespace and the labels. It is the caller's no more.
	Pod *v1.Pod
}

// A Fault is how a call fails. The zero value is not at all.
type Fault struct {
	Err  error         // is returned; the call is not done
	Done bool          // the call is done all the same
	Late time.Duration // the call is done all the same, so long after it has returned
	Hang bool          // nothing is returned before the context ends
}

func (c *Cluster) call(ctx context.Context, call Call, do func() error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	fault := Fault{}
	if c.config.Fault != nil {
		fault = c.config.Fault(ctx, call)
	}
	switch {
	case fault == Fault{}:
		return do()
	case fault.Late > 0:
		time.AfterFunc(fault.Late, func() { _ = do() })
	case fault.Done:
		_ = do()
	}
	if fault.Hang {
		<-ctx.Done()
		return ctx.Err()
	}
	return fault.Err
}
