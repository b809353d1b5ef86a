package simtest

import (
	"context"

	"github.com/volumekit/volumekit/controllers/apitest"
)

// A Process is a controller in a process of its own.
type Process struct {
	cluster *apitest.Cluster
	cancel  context.CancelFunc
	ended   chan error
}

// StartProcess calls run with a connection to the server until Crash.
func StartProcess(ctx context.Context, server *apitest.Server, identity string, run Main) *Process {
	ctx, cancel := context.WithCancel(ctx)
	p := &Process{cluster: server.Connect(identity), cancel: cancel, ended: make(chan error, 1)}
	go func() { p.ended <- run(ctx, p.cluster) }()
	return p
}

// Crash ends the process at once: none of its calls takes effect any more. It returns the error of run.
func (p *Process) Crash() error {
	p.cluster.Crash()
	p.cancel()
	return <-p.ended
}

// HasCrashed reports whether the process has crashed, by Crash or by a fault.
func (p *Process) HasCrashed() bool {
	select {
	case <-p.cluster.Crashed():
		return true
	default:
		return false
	}
}
