package manager

import (
	"slices"
	"time"

	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/retry"
)

// waitingFailures returns the operations in backoff whose mount point is known. The caller
// holds mu.
func (l *loop) waitingFailures(now time.Time) (all []retry.FailedOperation) {
	for op, a := range l.schedule.Retry.All() {
		if a.Where.Path != "" && a.Until.After(now) && !l.schedule.IsBusy(op.Volume) {
			all = append(all, retry.FailedOperation{Operation: op, FailedAttempt: a})
		}
	}
	slices.SortFunc(all, func(a, b retry.FailedOperation) int { return a.Operation.Compare(b.Operation) })
	return all
}

// retryNow ends the backoff of operations whose mount state has changed. If they fail again,
// the next pause is as long as without the retry.
func (l *loop) retryNow(changed []retry.FailedOperation) {
	l.mu.Lock()
	defer l.unlock()
	for _, a := range changed {
		if l.schedule.Retry.Get(a.Operation) != a.FailedAttempt {
			continue // another attempt has ended since
		}
		a.Until = time.Time{}
		l.schedule.Retry = l.schedule.Retry.With(a.Operation, a.FailedAttempt)
		l.dirty[a.Volume] = true
	}
}

// recordFailure records the error of an operation and computes its backoff.
func (l *loop) recordFailure(out execution.Outcome, now time.Time) {
	op := out.Operation
	delay := l.schedule.Retry.Get(op).Increase(l.config.Backoff, l.config.MaxBackoff, now)
	l.schedule.Retry = l.schedule.Retry.With(op, retry.FailedAttempt{Backoff: delay, Where: out.Where})
	l.failures = l.failures.With(failureKey{op.Volume, op.Pod}, out.Err)
}
