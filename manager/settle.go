package manager

import (
	"errors"
	"time"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// settle takes in what became of an operation.
func (l *loop) settle(out outcome, now time.Time) {
	l.mu.Lock()
	events := l.take(out, now)
	l.mu.Unlock()
	l.report(out)
	for _, event := range events {
		l.config.Events(event)
	}
}

// take changes the world as the operation did, and returns what is to be told. The caller
// holds mu.
func (l *loop) take(out outcome, now time.Time) []Event {
	cancelled := l.flights[out.volume].cancelled
	l.tableChanged = l.tableChanged || l.flights[out.volume].lookAfter
	delete(l.running, out.volume)
	delete(l.flights, out.volume)
	l.dirty[out.volume] = true
	l.have.put(out.volume, out.after)
	if out.record != nil || out.after.isNothing() {
		l.forgetUnread(out.volume)
	}
	l.adoptLate()
	l.unblock(out)
	if out.verb == tearDown && out.err == nil {
		l.dropParts(out.operation.pod.pod)
	}
	before := l.failures[failureKey{out.volume, out.operation.pod}]
	if out.err == nil {
		delete(l.retry, out.operation)
		delete(l.retry, out.operation.opposite())
		delete(l.failures, failureKey{out.volume, out.operation.pod})
	} else if !cancelled {
		l.noteFailure(out, now)
	}
	l.tellOf(out)
	if cancelled && out.err != nil {
		return nil
	}
	return l.eventsOf(out, before)
}

// errUnwanted ends operations that bring up what nobody wants any more.
var errUnwanted = errors.New("the pod is gone")

func (l *loop) noteFailure(out outcome, now time.Time) {
	op := out.operation
	l.retry[op] = attempt{l.retry[op].next(l.config.Backoff, l.config.MaxBackoff, now), out.at}
	l.failures[failureKey{op.volume, op.pod}] = out.err
}

// unblock has the volumes looked at that wait for the directory of this one, or for
// what is behind it.
func (l *loop) unblock(out outcome) {
	if out.verb != tearDown {
		return
	}
	if next := l.want.places.in(podDir{out.operation.pod.pod, out.pluginName, out.operation.pod.name}); next != "" {
		l.dirty[next] = true
	}
	if next, ok := l.want.onePod[storage{out.pluginName, out.name}]; ok {
		l.dirty[next] = true
	}
}

// tellOf wakes those who wait for the pods of the volume.
func (l *loop) tellOf(out outcome) {
	if out.operation.pod.pod != "" {
		l.tell(out.operation.pod.pod)
		return
	}
	if want := l.want.volumes[out.volume]; want != nil {
		for key := range want.pods.all() {
			l.tell(key.pod)
		}
	}
}

// report writes the log and the metrics.
func (l *loop) report(out outcome) {
	status := "success"
	if out.err != nil {
		status = "fail-unknown"
	}
	l.config.Metrics.Observe(OperationDuration, out.took,
		Label{"volume_plugin", out.pluginName}, Label{"operation_name", out.verb.metric(out.traits.block)},
		Label{"status", status}, Label{"migrated", "false"})
	log := l.config.Logger.With("operation", out.verb.String(), "volume", short(string(out.volume)), "plugin", out.pluginName)
	if out.operation.pod.pod != "" {
		log = log.With(logOf(out.operation.pod.pod, out.job.pod)...)
	}
	if out.err != nil {
		log.Warn("operation failed", append(logged(out.err), "kind", volume.KindOf(out.err).String(), "took", out.took)...)
		return
	}
	log.Info("operation done", "took", out.took)
}

// logOf names a pod in the log; one that is gone is known by its UID alone.
func logOf(uid types.UID, pod *v1.Pod) []any {
	attrs := []any{"pod", short(string(uid))}
	if pod != nil {
		attrs = append(attrs, "name", short(pod.Namespace)+"/"+short(pod.Name))
	}
	return attrs
}
