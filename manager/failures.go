package manager

import (
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/retry"
	"github.com/volumekit/volumekit/util"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A failureKey names the failure of an operation; a shared step has an empty PodKey.
type failureKey struct {
	volume v1.UniqueVolumeName
	pod    naming.PodKey
}

// recordFailure records the error of an operation and computes its backoff. The caller holds mu.
func (l *loop) recordFailure(out execution.Outcome, now time.Time) {
	op := out.Operation
	delay := l.schedule.Retry.Get(op).Increase(l.config.Backoff, l.config.MaxBackoff, now)
	l.schedule.Retry = l.schedule.Retry.With(op, retry.FailedAttempt{Backoff: delay, Where: out.Where})
	l.failures = l.failures.With(failureKey{op.Volume, op.Pod}, out.Err)
}

// failStart records the failure of an operation that cannot start. The caller holds mu.
func (l *loop) failStart(j execution.Job, err error, now time.Time) []Event {
	op := j.Operation
	l.config.Logger.Warn("operation cannot begin", append(logOfView(op.Pod), "operation", op.Verb.String(), "volume", brief.Name(string(op.Volume)), "err", err)...)
	before := l.failures.Get(failureKey{op.Volume, op.Pod})
	err = util.Transient(err)
	out := execution.Outcome{Job: j, Err: err, After: j.Before}
	l.recordFailure(out, now)
	l.replanAt[op.Volume] = l.schedule.Retry.Get(op).Until
	return l.eventsOf(out, before)
}

// retryNow ends the backoff of operations whose mount state has changed. If they fail again,
// the next pause is as long as without the retry. The caller holds mu.
func (w *world) retryNow(changed []retry.FailedOperation) {
	for _, a := range changed {
		if w.schedule.Retry.Get(a.Operation) != a.FailedAttempt {
			continue // another attempt has ended since
		}
		a.Until = time.Time{}
		w.schedule.Retry = w.schedule.Retry.With(a.Operation, a.FailedAttempt)
		w.dirty[a.Volume] = true
	}
}

// dropStaleFailures drops failures and backoffs of pods that are gone: a later pod begins
// without a pause. The caller holds mu.
func (w *world) dropStaleFailures(pods []types.UID) {
	gone := func(name v1.UniqueVolumeName, pod naming.PodKey) bool {
		v := w.want.Volumes.Get(name)
		return v == nil || pod.Name != "" && v.Pods.Get(pod) == nil
	}
	for op := range w.schedule.Retry.Keys() {
		if operation.TakesDown(op.Verb) && !w.mayExist(failureKey{op.Volume, op.Pod}) { // the volume has another name
			w.schedule.Retry = w.schedule.Retry.Without(op)
		}
		if !operation.TakesDown(op.Verb) && gone(op.Volume, op.Pod) {
			w.schedule.Retry = w.schedule.Retry.Without(op)
		}
		if op.Verb == operation.Expand && w.isGrown(op.Volume) {
			w.schedule.Retry = w.schedule.Retry.Without(op)
			w.failures = w.failures.Without(failureKey{volume: op.Volume})
		}
	}
	for key := range w.failures.Keys() {
		if gone(key.volume, key.pod) && !w.mayExist(key) {
			w.failures = w.failures.Without(key)
		}
	}
	for key := range w.waitReasons {
		if gone(key.volume, key.pod) {
			delete(w.waitReasons, key)
		}
	}
	for key := range w.eventTexts {
		if gone(key.volume, key.pod) {
			delete(w.eventTexts, key)
		}
	}
	for _, uid := range pods {
		w.dropRevisions(uid)
	}
}

// mayExist reports whether the volume, or its part for the pod, is or may be present. The
// caller holds mu.
func (w *world) mayExist(key failureKey) bool {
	have := w.have.Volumes.Get(key.volume)
	return have != nil && (key.pod.Name == "" || have.StateOf(key.pod) != actual.Absent)
}
