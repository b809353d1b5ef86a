package apitest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/volumekit/volumekit/controllers/api"
	"k8s.io/apimachinery/pkg/watch"
)

// A table holds the objects of one kind and their recent changes. Stored objects are immutable:
// readers share them, and clients receive copies. Its methods require Server.mu.
type table struct {
	kind    *kind
	objects map[api.Key]api.Object
	byIndex map[string]map[api.Key]api.Object // by the value of kind.index
	changes []*change                         // in the order of their versions
	history int
	// compacted is the version of the newest dropped change.
	compacted uint64
	watchers  map[trigger][]*watcher // in the order of their numbers
}

// A change is the step of one object from one version to the next. Watchers share it.
type change struct {
	version  uint64
	old, new api.Object // nil: the object does not exist
}

// A trigger is a field with the value that all objects of a watch have. Only changes of objects
// with this value are passed to the watch. With the zero trigger, all changes are.
type trigger struct{ field, value string }

func newTable(k *kind, history int) *table {
	return &table{
		kind: k, objects: map[api.Key]api.Object{}, byIndex: map[string]map[api.Key]api.Object{},
		history: history, watchers: map[trigger][]*watcher{},
	}
}

// apply stores a change and sends it to the watchers.
func (t *table) apply(c *change) {
	if c.old != nil {
		t.remove(c.old)
	}
	if c.new != nil {
		t.add(c.new)
	}
	t.changes = append(t.changes, c)
	// The slice moves only when half of it is obsolete.
	if extra := len(t.changes) - t.history; extra > t.history {
		t.forget(extra)
	}
	t.notify(c)
}

func (t *table) add(object api.Object) {
	key := api.KeyOf(object)
	t.objects[key] = object
	if t.kind.index == "" {
		return
	}
	value := t.kind.fields[t.kind.index](object)
	if t.byIndex[value] == nil {
		t.byIndex[value] = map[api.Key]api.Object{}
	}
	t.byIndex[value][key] = object
}

func (t *table) remove(object api.Object) {
	key := api.KeyOf(object)
	delete(t.objects, key)
	if t.kind.index == "" {
		return
	}
	value := t.kind.fields[t.kind.index](object)
	delete(t.byIndex[value], key)
	if len(t.byIndex[value]) == 0 {
		delete(t.byIndex, value)
	}
}

// forget drops the n oldest changes.
func (t *table) forget(n int) {
	if n == 0 {
		return
	}
	t.compacted = t.changes[n-1].version
	t.changes = slices.Clone(t.changes[n:])
}

func (t *table) compact(version uint64) {
	t.changes, t.compacted = nil, version
}

// since returns the changes after a version. ok is false if some of them were dropped.
func (t *table) since(version uint64) (changes []*change, ok bool) {
	if version < t.compacted {
		return nil, false
	}
	first, found := slices.BinarySearchFunc(t.changes, version, func(c *change, v uint64) int { return cmp.Compare(c.version, v) })
	if found {
		first++
	}
	return t.changes[first:], true
}

// find returns the current objects of a selection, sorted by namespace and name.
func (t *table) find(sel selection) []api.Object {
	candidates := t.objects
	switch {
	case sel.trigger.field == "":
	case sel.trigger.field == t.kind.index:
		candidates = t.byIndex[sel.trigger.value]
	case sel.namespace != "" || !t.kind.namespaced:
		key := api.Key{Namespace: sel.namespace, Name: sel.trigger.value}
		candidates = nil
		if object, ok := t.objects[key]; ok {
			candidates = map[api.Key]api.Object{key: object}
		}
	}
	return sorted(candidates, sel)
}

// findAt returns the objects of a selection as of a version. ok is false if changes since that
// version were dropped.
func (t *table) findAt(sel selection, version uint64) (objects []api.Object, ok bool) {
	changes, ok := t.since(version)
	if !ok || len(changes) == 0 {
		return t.find(sel), ok
	}
	past := maps.Clone(t.objects)
	for _, c := range slices.Backward(changes) {
		if c.new != nil {
			delete(past, api.KeyOf(c.new))
		}
		if c.old != nil {
			past[api.KeyOf(c.old)] = c.old
		}
	}
	return sorted(past, sel), true
}

func sorted(objects map[api.Key]api.Object, sel selection) []api.Object {
	keys := make([]api.Key, 0, len(objects))
	for key, object := range objects {
		if sel.matches(object) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	var found []api.Object
	for _, key := range keys {
		found = append(found, objects[key])
	}
	return found
}

// compareKeys orders keys as the API server lists them: "a/x" comes after "a-b/x".
func compareKeys(a, b api.Key) int {
	if a.Namespace == b.Namespace { // most keys: no text is built for them
		return strings.Compare(a.Name, b.Name)
	}
	return strings.Compare(a.Namespace+"/", b.Namespace+"/")
}

// notify passes a change to the watchers whose trigger the old or the new object has.
func (t *table) notify(c *change) {
	var triggers [5]trigger
	last := triggers[:1]
	for _, object := range []api.Object{c.old, c.new} {
		if object == nil {
			continue
		}
		last = appendNew(last, trigger{"metadata.name", object.GetName()})
		if t.kind.index != "" {
			last = appendNew(last, trigger{t.kind.index, t.kind.fields[t.kind.index](object)})
		}
	}
	for _, tr := range last {
		for _, w := range slices.Clone(t.watchers[tr]) {
			w.change(c)
		}
	}
}

func appendNew(triggers []trigger, t trigger) []trigger {
	if slices.Contains(triggers, t) {
		return triggers
	}
	return append(triggers, t)
}

func (t *table) addWatcher(w *watcher) {
	t.watchers[w.sel.trigger] = append(t.watchers[w.sel.trigger], w)
}

func (t *table) removeWatcher(w *watcher) {
	of := t.watchers[w.sel.trigger]
	i, found := slices.BinarySearchFunc(of, w.number, func(other *watcher, number uint64) int { return cmp.Compare(other.number, number) })
	if !found {
		return
	}
	t.watchers[w.sel.trigger] = slices.Delete(of, i, i+1)
	if len(of) == 1 {
		delete(t.watchers, w.sel.trigger)
	}
}

// allWatchers returns the watchers of the table in the order of their numbers.
func (t *table) allWatchers() []*watcher {
	all := slices.Concat(slices.Collect(maps.Values(t.watchers))...)
	slices.SortFunc(all, func(a, b *watcher) int { return cmp.Compare(a.number, b.number) })
	return all
}

// eventOf returns the event of a change for a selection: an object that begins to match is added,
// one that ends to match is deleted. ok is false if the change does not concern the selection.
func eventOf(c *change, sel selection) (kind watch.EventType, object api.Object, ok bool) {
	before := c.old != nil && sel.matches(c.old)
	after := c.new != nil && sel.matches(c.new)
	switch {
	case before && after:
		return watch.Modified, c.new, true
	case after:
		return watch.Added, c.new, true
	case before:
		return watch.Deleted, c.old, true
	}
	return "", nil, false
}
