package manager

import (
	"fmt"
	"time"

	"github.com/volumekit/volumekit/volume"
	"k8s.io/apimachinery/pkg/types"
)

// jobFor collects what an operation needs. The caller holds mu.
func (w *world) jobFor(plugins *volume.VolumePluginMgr, op operation) (job, error) {
	j := job{operation: op}
	w.addActual(&j)
	want := w.want.volumes[op.volume]
	if isUp(op.verb) && want != nil {
		j.addDesired(want, w.revisions)
	}
	if op.verb == setUp && w.strange[j.before.dir(op.pod)] && j.before.stateOf(op.pod) == absent {
		j.before = j.before.with(op.pod, &actualPod{state: uncertain, block: j.traits.block})
	}
	if op.verb == tearDown {
		j.subpaths = w.subpathsOf(place{op.volume, op.pod}, j.before.pods.get(op.pod))
	}
	plugin, err := plugins.FindPluginByName(j.pluginName)
	if err != nil {
		return j, err
	}
	j.plugin = plugin
	if isUp(op.verb) && j.traits.shared() {
		j.record = recordOf(op.volume, j.before, op.pod)
		if op.verb != setUp {
			j.record.Spec = specRecord{j.spec.Volume, j.spec.PersistentVolume, j.spec.ReadOnly}
		}
	}
	return j, nil
}

// subpathsOf says which volume in the pod it is, by the name that it was set up by, and by
// all that are not known to be others': the pod may have several for it, and after a
// restart none is known. The caller holds mu.
func (w *world) subpathsOf(at place, have *actualPod) func(outer string) bool {
	others := map[string]bool{}
	for _, p := range w.want.places[at.key.pod] {
		others[p.outer] = p.place != at
	}
	for v := range w.want.failed {
		if v.pod == at.key.pod {
			others[v.name] = true
		}
	}
	for _, e := range w.have.dirs[at.key.pod] {
		other := place{e.volume, podKey{at.key.pod, e.name}}
		if pod := w.have.volumes[e.volume].pods.get(other.key); pod != nil && other != at {
			others[pod.outer] = true
		}
	}
	return func(outer string) bool { return !others[outer] || have != nil && have.outer == outer }
}

// isUp reports whether there may be more after the operation than before.
func isUp(v verb) bool { return v == attach || v == mountDevice || v == setUp }

// isDown reports whether it takes something down.
func isDown(v verb) bool { return v == tearDown || v == unmountDevice || v == detach }

func (w *world) addActual(j *job) {
	v := w.have.volumes[j.volume]
	if v == nil {
		want := w.want.volumes[j.volume]
		v = &actualVolume{plugin: want.plugin, name: want.name, spec: want.spec, traits: want.traits}
		if w.isUnread(j.volume) { // until it is written anew
			v.lastPod = want.pods[0].key
			v.assume()
		}
	}
	j.before = v
	j.pluginName, j.name, j.spec, j.traits = v.plugin, v.name, v.spec, v.traits
	j.devicePath, j.deviceMountPath, j.oldSize, j.lastPod = v.devicePath, v.deviceMountPath, v.size, v.lastPod
	if want := w.want.volumes[j.volume]; want != nil && j.verb == expand {
		j.size, j.spec = want.size, want.spec
	}
}

// addDesired adds what the pod asks for, of whom the volume is set up: of one that may
// write to it, if it is for all. For one that may not a blank device is not formatted.
func (j *job) addDesired(want *desiredVolume, revisions map[podKey]int64) {
	key := j.operation.pod
	if j.verb != setUp {
		key = want.writer()
	}
	pod := want.pods.get(key)
	j.spec, j.pod, j.outer, j.args, j.revision = pod.spec, pod.pod, pod.outer, pod.args, revisions[key]
}

// user is the pod that it is done for; of what takes something down, none.
func (j *job) user() types.UID {
	if j.pod == nil {
		return ""
	}
	return j.pod.UID
}

// firstUser is the part of it that what is for all pods is done for.
func (j *job) firstUser() podKey { return podKey{j.user(), j.spec.Name()} }

// failAtOnce notes an operation that could not begin. The caller holds mu.
func (l *loop) failAtOnce(j job, err error, now time.Time) []Event {
	op := j.operation
	l.config.Logger.Warn("operation cannot begin", "operation", op.verb.String(), "volume", short(string(op.volume)), "err", err)
	before := l.failures[failureKey{op.volume, op.pod}]
	err = fmt.Errorf("%w: %w", volume.ErrTransient, err)
	out := outcome{job: j, err: err, after: j.before}
	l.noteFailure(out, now)
	l.later[op.volume] = l.retry[op].until
	return l.eventsOf(out, before)
}
