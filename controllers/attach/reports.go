package attach

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/unseen"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// reports are the changes of node.status.volumesAttached that have not been written, and the volumes that
// this run has seen missing there. The zero value is empty.
type reports struct {
	mu        sync.Mutex // locked before that of withdrawn
	of        map[types.NodeName]*nodeReports
	writes    uint64 // the number of writes so far
	withdrawn table[withdrawal]
}

// A withdrawal is the last state without the volume in volumesAttached that this run has written, or read from the API
// server.
type withdrawal struct {
	node types.UID
	at   time.Time // before the call
}

type nodeReports struct {
	pending map[v1.UniqueVolumeName]report
	written map[v1.UniqueVolumeName]writtenReport // in the last repeatPause
	// unseen are the volumes of writes that the cache may not have shown: another program may have reverted such a
	// write before the next list of the cache, which then shows no change.
	unseen map[v1.UniqueVolumeName]bool
}

// A writtenReport says when, and by which write, this run has written a change.
type writtenReport struct {
	reporting
	at    time.Time
	write uint64
}

// repeatPause is the pause before a change is written that another program has reverted: two controllers
// with different caches would write without an end.
const repeatPause = 5 * time.Second

// A report is a change of volumesAttached: an entry to add, or the removal of one.
type report struct {
	reporting
	devicePath string
}

// lastWrite returns the number of the last write so far.
func (r *reports) lastWrite() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.writes
}

// request sets the change for a volume, and reports whether it is new. since is the number of the last write before
// the state was read that the change was planned with. A change that is older than the last write for the volume is
// dropped: that write has queued the volume, and the next plan sees its result.
func (r *reports) request(node types.NodeName, id v1.UniqueVolumeName, change report, since uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.node(node)
	if n.pending[id] == change || n.written[id].write > since {
		return false
	}
	n.pending[id] = change
	if change.reporting == adding {
		r.withdrawn.forget(id, node)
	}
	return true
}

func (r *reports) node(name types.NodeName) *nodeReports {
	if r.of == nil {
		r.of = map[types.NodeName]*nodeReports{}
	}
	if r.of[name] == nil {
		r.of[name] = &nodeReports{
			pending: map[v1.UniqueVolumeName]report{}, written: map[v1.UniqueVolumeName]writtenReport{}, unseen: map[v1.UniqueVolumeName]bool{},
		}
	}
	return r.of[name]
}

// state returns the pending change for a volume, and its withdrawal.
func (r *reports) state(node types.NodeName, id v1.UniqueVolumeName) (reporting, withdrawal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	withdrawn := r.withdrawn.get(id, node)
	if n := r.of[node]; n != nil {
		return n.pending[id].reporting, withdrawn
	}
	return noReporting, withdrawn
}

// take returns the pending changes of a node that are due, and the pause until a written one is to be dropped
// and the next ones are due.
func (r *reports) take(node types.NodeName, now time.Time) (due map[v1.UniqueVolumeName]report, pause time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of[node]
	if n == nil {
		return nil, 0
	}
	maps.DeleteFunc(n.written, func(_ v1.UniqueVolumeName, w writtenReport) bool { return now.Sub(w.at) >= repeatPause })
	for _, w := range n.written {
		if wait := w.at.Add(repeatPause).Sub(now); pause == 0 || wait < pause {
			pause = wait
		}
	}
	due = maps.Clone(n.pending)
	maps.DeleteFunc(due, func(id v1.UniqueVolumeName, change report) bool { return n.written[id].reporting == change.reporting })
	r.clean(node)
	return due, pause
}

// done drops changes that a call since began has written to a Node object, or whose node has gone: then uid is empty.
// A change that was requested meanwhile stays.
func (r *reports) done(node types.NodeName, uid types.UID, began time.Time, written map[v1.UniqueVolumeName]report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, now := r.node(node), time.Now()
	r.writes++
	for id, change := range written {
		n.written[id] = writtenReport{change.reporting, now, r.writes}
		n.unseen[id] = true
		if n.pending[id] == change {
			delete(n.pending, id)
			if change.reporting == removing && uid != "" {
				r.withdrawn.set(id, node, withdrawal{uid, began})
			}
		}
	}
}

// takeUnseen returns the volumes of writes that the cache may not have shown, and forgets them.
func (r *reports) takeUnseen(node types.NodeName) []v1.UniqueVolumeName {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.of[node]
	if n == nil {
		return nil
	}
	ids := slices.Collect(maps.Keys(n.unseen))
	clear(n.unseen)
	r.clean(node)
	return ids
}

// clean drops the state of a node without changes.
func (r *reports) clean(node types.NodeName) {
	if n := r.of[node]; n != nil && len(n.pending)+len(n.written)+len(n.unseen) == 0 {
		delete(r.of, node)
	}
}

// handleNode writes the pending changes of a node in one call, and queues their volumes.
func (c *Controller) handleNode(ctx context.Context, name string) (workers.Result, error) {
	node := types.NodeName(name)
	changes, pause := c.reports.take(node, time.Now())
	switch {
	case len(changes) == 0 && pause > 0:
		return workers.Result{After: pause}, nil
	case len(changes) == 0:
		return c.lookAgain(ctx, node)
	}
	began := time.Now()
	uid, err := c.writeReports(ctx, name, changes)
	if err != nil {
		return workers.Result{}, fmt.Errorf("node %q: %w", name, err)
	}
	c.reports.done(node, uid, began, changes)
	for id := range changes {
		c.volumePool.Add(key{volume: id})
	}
	return workers.Result{After: cmp.Or(pause, repeatPause)}, nil
}

// lookAgain queues the volumes of earlier writes to a node once the cache has the state after them.
func (c *Controller) lookAgain(ctx context.Context, name types.NodeName) (workers.Result, error) {
	node, err := c.nodes.Get(ctx, api.Key{Name: string(name)})
	if err != nil {
		return workers.Result{}, fmt.Errorf("read node %q: %w", name, err)
	}
	if pause := unseen.PauseForState(c.nodes, node); pause > 0 {
		return workers.Result{After: pause}, nil
	}
	c.queue(false, c.reports.takeUnseen(name)...)
	return workers.Result{}, nil
}

// writeReports makes volumesAttached of a node agree with changes, and returns the UID of the Node object;
// "" if there is none. A removal is proven by a write, or by a read of the API server.
func (c *Controller) writeReports(ctx context.Context, name string, changes map[v1.UniqueVolumeName]report) (types.UID, error) {
	node, err := c.nodes.Get(ctx, api.Key{Name: name})
	if err != nil {
		return "", fmt.Errorf("read: %w", err)
	}
	if node == nil || !isWritten(node, changes) {
		if node, err = c.nodes.Live(ctx, api.Key{Name: name}); err != nil {
			return "", fmt.Errorf("read: %w", err)
		}
	}
	if node == nil {
		return "", nil
	}
	entries := apply(node.Status.VolumesAttached, changes)
	if slices.Equal(entries, node.Status.VolumesAttached) {
		return node.UID, nil
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion},
		"status":   map[string]any{"volumesAttached": entries},
	})
	if err == nil {
		_, err = c.nodes.Patch(ctx, api.KeyOf(node), types.MergePatchType, data, "status")
	}
	if err != nil {
		return "", fmt.Errorf("patch the status: %w", err)
	}
	return node.UID, nil
}

// isWritten reports whether a write of changes to the state of a node proves all of its removals: it
// replaces the list.
func isWritten(node *v1.Node, changes map[v1.UniqueVolumeName]report) bool {
	return !slices.Equal(apply(node.Status.VolumesAttached, changes), node.Status.VolumesAttached)
}

// apply returns a list of attached volumes with changes. Other entries keep their places.
func apply(list []v1.AttachedVolume, changes map[v1.UniqueVolumeName]report) []v1.AttachedVolume {
	entries, seen := []v1.AttachedVolume{}, map[v1.UniqueVolumeName]bool{}
	for _, entry := range list {
		change, isChanged := changes[entry.Name]
		if isChanged && (change.reporting == removing || seen[entry.Name]) {
			continue
		}
		if isChanged {
			entry.DevicePath = change.devicePath
		}
		seen[entry.Name] = true
		entries = append(entries, entry)
	}
	for _, id := range slices.Sorted(maps.Keys(changes)) {
		if change := changes[id]; change.reporting == adding && !seen[id] {
			entries = append(entries, v1.AttachedVolume{Name: id, DevicePath: change.devicePath})
		}
	}
	return entries
}
