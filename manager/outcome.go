package manager

import (
	"errors"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager/internal/actual"
	"github.com/volumekit/volumekit/manager/internal/execution"
	"github.com/volumekit/volumekit/manager/internal/naming"
	"github.com/volumekit/volumekit/manager/internal/operation"
	"github.com/volumekit/volumekit/manager/internal/plugincall"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// applyResult records the outcome of an operation and reports it.
func (l *loop) applyResult(out execution.Outcome, now time.Time) {
	l.mu.Lock()
	events := l.recordOutcome(out, now)
	l.unlock()
	l.logOutcome(out)
	for _, event := range events {
		l.config.Events(event)
	}
	if out.Verb == operation.Expand {
		l.config.Expansions(expansionOf(out))
	}
}

// recordOutcome updates the world after an operation, and returns the events. The caller
// holds mu.
func (l *loop) recordOutcome(out execution.Outcome, now time.Time) []Event {
	flight := l.schedule.Find(out.Operation)
	cancelled := flight.Cancelled
	l.queueMountCheckAfter(flight, out)
	l.schedule.Drop(flight)
	if next, waits := l.lanes.RecordEnd(flight); waits {
		l.dirty[next] = true
	}
	l.dirty[out.Volume] = true
	l.have.Put(out.Volume, l.mergeOutcome(out))
	l.dropRevisions(out.Operation.Pod.Pod)
	if out.Record != nil || out.After.IsAbsent() {
		l.dropBrokenRecord(l.disk.RecordDir(), out.Volume)
	}
	l.adoptDelayed()
	l.replanBlocked(out)
	if out.Verb == operation.TearDown && out.Err == nil {
		l.dropSubpathLeftovers(out.Operation.Pod.Pod)
	}
	before := l.failures.Get(failureKey{out.Volume, out.Operation.Pod})
	if out.Verb == operation.Attach && out.Err == nil {
		l.attachments.scheduleCheck(now)
	}
	if out.Verb == operation.Detach && out.Err == nil {
		l.attachments.endDelay(out.Volume)
	}
	if out.Err == nil {
		l.schedule.Retry = l.schedule.Retry.Without(out.Operation).Without(out.Operation.Opposite())
		l.failures = l.failures.Without(failureKey{out.Volume, out.Operation.Pod})
	} else if !cancelled {
		l.recordFailure(out, now)
	}
	l.notifyPods(out)
	if cancelled && out.Err != nil {
		return nil
	}
	return l.eventsOf(out, before)
}

// mergeOutcome returns the actual state of a volume after an operation. A tear-down changes
// the part of its own pod only, because tear-downs of other pods run at the same time.
func (w *world) mergeOutcome(out execution.Outcome) *actual.Volume {
	now := w.have.Volumes.Get(out.Volume)
	if out.Verb != operation.TearDown || now == nil {
		return out.After
	}
	after := *now
	if part := out.After.Pods.Get(out.Operation.Pod); part != nil {
		after.Pods = now.Pods.With(out.Operation.Pod, part)
	} else {
		after.Pods = now.Pods.Without(out.Operation.Pod)
	}
	return &after
}

// errPodGone cancels set-ups that no pod needs.
var errPodGone = errors.New("the pod is gone")

// replanBlocked queues the volumes that wait for the directory, the device mount path or the
// storage of this one.
func (w *world) replanBlocked(out execution.Outcome) {
	if out.After.Device == actual.Absent {
		for _, next := range w.want.ByDevicePath.Get(out.DeviceMountPath) {
			w.dirty[next] = true
		}
	}
	if out.Verb != operation.TearDown {
		return
	}
	if next := w.want.VolumeIn(naming.PodDir{Pod: out.Operation.Pod.Pod, Plugin: out.PluginName, Name: out.Operation.Pod.Name}); next != "" {
		w.dirty[next] = true
	}
	if next, ok := w.want.OnePod.Find(naming.Storage{Plugin: out.PluginName, Name: out.Name}); ok {
		w.dirty[next] = true
	}
}

// notifyPods wakes the waiters of the volume's pods.
func (w *world) notifyPods(out execution.Outcome) {
	if out.Operation.Pod.Pod != "" {
		w.notifyWaiters(out.Operation.Pod.Pod)
		return
	}
	if want := w.want.Volumes.Get(out.Volume); want != nil {
		for key := range want.Pods.All() {
			w.notifyWaiters(key.Pod)
		}
	}
}

// logOutcome logs the outcome of an operation and observes its duration in the metrics.
func (l *loop) logOutcome(out execution.Outcome) {
	metric := out.Verb.Metric()
	if out.Traits.Block {
		metric = out.Verb.BlockMetric()
	}
	status := "success"
	if out.Err != nil {
		status = "fail-unknown"
	}
	l.config.Metrics.Observe(OperationDuration, out.Took,
		Label{"volume_plugin", out.PluginName}, Label{"operation_name", metric},
		Label{"status", status}, Label{"migrated", "false"})
	log := l.config.Logger.With("operation", out.Verb.String(), "volume", brief.Name(string(out.Volume)), "plugin", out.PluginName)
	if out.Operation.Pod.Pod != "" {
		log = log.With(podLogAttrs(out.Operation.Pod.Pod, out.Job.ForPod)...).With(logOfView(out.Operation.Pod)...)
	}
	if out.Err != nil {
		log.Warn("operation failed", append(plugincall.LogAttrs(out.Err), "kind", volume.KindOf(out.Err).String(), "took", out.Took)...)
		return
	}
	log.Info("operation done", "took", out.Took)
}

// podLogAttrs returns the log attributes of a pod; a pod that is gone has only its UID.
func podLogAttrs(uid types.UID, pod *v1.Pod) []any {
	attrs := []any{"pod", brief.Name(string(uid))}
	if pod != nil {
		attrs = append(attrs, "name", brief.Name(pod.Namespace)+"/"+brief.Name(pod.Name))
	}
	return attrs
}

// logOfView names a read-only view in the log: its volume has the same name.
func logOfView(key naming.PodKey) []any {
	if podvolume.IsView(key.Name) {
		return []any{"view", "read-only"}
	}
	return nil
}
