package attach

import (
	"maps"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A table has a value for pairs of a volume and a node. It is safe for concurrent use. The zero value is
// empty.
type table[T any] struct {
	mu   sync.Mutex
	rows map[v1.UniqueVolumeName]map[types.NodeName]T
}

// of returns the values of a volume.
func (t *table[T]) of(id v1.UniqueVolumeName) map[types.NodeName]T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.rows[id])
}

// on returns the volumes that have a value on a node.
func (t *table[T]) on(node types.NodeName) (ids []v1.UniqueVolumeName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, nodes := range t.rows {
		if _, ok := nodes[node]; ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// get returns a value, the zero value if there is none.
func (t *table[T]) get(id v1.UniqueVolumeName, node types.NodeName) T {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[id][node]
}

// keep drops the values of a volume on nodes that remains does not report.
func (t *table[T]) keep(id v1.UniqueVolumeName, remains func(types.NodeName) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.rows[id], func(node types.NodeName, _ T) bool { return !remains(node) })
	if len(t.rows[id]) == 0 {
		delete(t.rows, id)
	}
}

func (t *table[T]) set(id v1.UniqueVolumeName, node types.NodeName, value T) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rows == nil {
		t.rows = map[v1.UniqueVolumeName]map[types.NodeName]T{}
	}
	if t.rows[id] == nil {
		t.rows[id] = map[types.NodeName]T{}
	}
	t.rows[id][node] = value
}

// forget drops a value, and reports whether there was one.
func (t *table[T]) forget(id v1.UniqueVolumeName, node types.NodeName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, ok := t.rows[id][node]
	delete(t.rows[id], node)
	if len(t.rows[id]) == 0 {
		delete(t.rows, id)
	}
	return ok
}

// A pluggedState is the state of a volume that a plugin attaches, on one node, as this run has seen it.
type pluggedState struct {
	state      attachment
	devicePath string
	// mark is that of the holder of another run at the time of a detach: the state counts until the
	// holder has another one.
	mark string
	// at is the time of a detach, or of an attach without an effect. A call of another run may have
	// attached the volume since if it was open at that time.
	at time.Time
}

// countsUnder reports whether the state is valid for a node that a holder names.
func (s pluggedState) countsUnder(h holder, run string, now time.Time) bool {
	if s.state != detached {
		return true
	}
	return (h.Run == run || h.mark() == s.mark) && !s.at.Before(h.openUntil(run, now))
}

// pluggedStates are the states of volumes on nodes. The zero value is empty.
type pluggedStates struct{ table[pluggedState] }

// doubt drops the states of a volume that are not valid under the last holder before a run writes another one: that
// one would not show the calls of other runs for which they are not valid.
func (p *pluggedStates) doubt(id v1.UniqueVolumeName, last holder, run string, now time.Time) {
	for node, state := range p.of(id) {
		if !state.countsUnder(last, run, now) {
			p.forget(id, node)
		}
	}
}

// lostCalls are the times until which calls with an open outcome may take effect.
type lostCalls struct{ table[time.Time] }

// of returns the times of a volume that have not passed, and drops the others.
func (l *lostCalls) of(id v1.UniqueVolumeName, now time.Time) map[types.NodeName]time.Time {
	all := l.table.of(id)
	for node, until := range all {
		if !now.Before(until) {
			l.forget(id, node)
			delete(all, node)
		}
	}
	return all
}

// failures are the pauses of attaches and detaches. Of a volume on a node, one kind of call fails at a time.
type failures struct{ table[failure] }

type failure struct {
	count int
	until time.Time
}

// add counts a failure, and returns the pause.
func (f *failures) add(id v1.UniqueVolumeName, node types.NodeName, now time.Time, first, most time.Duration) time.Duration {
	last := f.get(id, node)
	pause := first
	for range last.count {
		if pause *= 2; pause >= most {
			pause = most
			break
		}
	}
	f.set(id, node, failure{last.count + 1, now.Add(pause)})
	return pause
}

func (f *failures) until(id v1.UniqueVolumeName, node types.NodeName) time.Time {
	return f.get(id, node).until
}

// A waitingRoom has the volumes that wait for room on nodes. The zero value is empty.
type waitingRoom struct{ table[bool] }

// add registers a volume that waits for room on a node, and reports whether it is new. One worker at a time
// handles a volume.
func (w *waitingRoom) add(node types.NodeName, id v1.UniqueVolumeName) (isNew bool) {
	isNew = !w.get(id, node)
	w.set(id, node, true)
	return isNew
}

// take returns the volumes that wait for a node, and forgets them.
func (w *waitingRoom) take(node types.NodeName) (ids []v1.UniqueVolumeName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, nodes := range w.rows {
		if !nodes[node] {
			continue
		}
		ids = append(ids, id)
		if delete(nodes, node); len(nodes) == 0 {
			delete(w.rows, id)
		}
	}
	return ids
}

// orphans are the VolumeAttachments whose persistent volume the cache does not have, by their names, with
// the unique names of their volumes, "" for an unknown one. The zero value is empty.
type orphans struct {
	mu    sync.Mutex
	ids   map[string]v1.UniqueVolumeName
	names map[v1.UniqueVolumeName]map[string]bool
}

// set sets the unique name of the volume of an orphan, and returns the one before.
func (o *orphans) set(name string, id v1.UniqueVolumeName) (last v1.UniqueVolumeName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids, o.names = map[string]v1.UniqueVolumeName{}, map[v1.UniqueVolumeName]map[string]bool{}
	}
	last = o.drop(name)
	o.ids[name] = id
	if o.names[id] == nil {
		o.names[id] = map[string]bool{}
	}
	o.names[id][name] = true
	return last
}

// forget drops an orphan, and returns the unique name of its volume.
func (o *orphans) forget(name string) (last v1.UniqueVolumeName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.drop(name)
}

func (o *orphans) drop(name string) (last v1.UniqueVolumeName) {
	id, ok := o.ids[name]
	if !ok {
		return ""
	}
	delete(o.ids, name)
	delete(o.names[id], name)
	if len(o.names[id]) == 0 {
		delete(o.names, id)
	}
	return id
}

// idOf returns the unique name of the volume of an orphan.
func (o *orphans) idOf(name string) v1.UniqueVolumeName {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ids[name]
}

// of returns the names of the orphans of a volume.
func (o *orphans) of(id v1.UniqueVolumeName) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Collect(maps.Keys(o.names[id]))
}
