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

// A Call is a call of the client that is about to be executed.
type Call struct {
	Op Op
	// Pod has the caller's arguments: of Get and Delete the names (and UID), of List the
	// namespace and the labels. It is a copy.
	Pod *v1.Pod
}

// A Fault makes a call fail. The zero value is no fault.
type Fault struct {
	Err  error         // is returned; the call has no effect
	Done bool          // the call takes effect in spite of Err
	Late time.Duration // the call takes effect so long after it has returned
	Hang bool          // the call returns when its context ends
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
