package manager

import (
	"context"
	"sync"
	"time"

	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/mountcheck"
	"github.com/volumekit/volumekit/manager/internal/operation"
)

// A background does work outside the goroutine of the loop, which applies each result later. The
// simulation has its own.
type background interface {
	startOperation(op operation.Operation, work func() execution.Outcome)
	// startQuery starts work that changes nothing: its result is lost if the manager stops.
	startQuery(work func() result)
}

// A result is the result of work in the background.
type result interface {
	applyTo(ctx context.Context, l *loop, now time.Time)
}

// goroutines are the background of a running manager.
type goroutines struct {
	results chan<- result
	stopped <-chan struct{}
	queries *sync.WaitGroup
}

func (g goroutines) startOperation(_ operation.Operation, work func() execution.Outcome) {
	go func() { g.results <- operationResult{work()} }()
}

func (g goroutines) startQuery(work func() result) {
	g.queries.Go(func() {
		begin := time.Now()
		r := work()
		if check, ok := r.(mountCheckResult); ok {
			check.Took = time.Since(begin)
			r = check
		}
		select {
		case g.results <- r:
		case <-g.stopped:
		}
	})
}

// An operationResult is the outcome of an operation.
type operationResult struct{ execution.Outcome }

func (r operationResult) applyTo(_ context.Context, l *loop, now time.Time) {
	l.applyResult(r.Outcome, now)
}

// A mountCheckResult is the result of a check of expected mounts.
type mountCheckResult struct{ mountcheck.Check }

func (r mountCheckResult) applyTo(_ context.Context, l *loop, now time.Time) {
	l.mounts.applyCheck(r.Check, now)
}

func (r scanResult) applyTo(ctx context.Context, l *loop, _ time.Time) { l.restorer.applyScan(ctx, r) }

func (r attachCheck) applyTo(_ context.Context, l *loop, now time.Time) {
	l.attachments.applyAttachCheck(r, now)
}

func (r populationResult) applyTo(_ context.Context, l *loop, now time.Time) {
	if l.repopulator.applyPopulation(r, now) {
		l.installPopulation(r.want, r.Delta)
	}
}
