package mounttest

import (
	"context"

	"github.com/volumekit/volumekit/mount"
)

var (
	_ mount.Watcher      = (*Fake)(nil)
	_ mount.TableWatcher = (*Fake)(nil)
)

// Watch implements [mount.Watcher]: changed is called after each Mount, Unmount and
// UnmountTree, also after a failed one, and after each change of MountNew and UnmountRemove.
func (f *Fake) Watch(ctx context.Context, changed func()) error {
	wakeUp := make(chan struct{}, 1)
	_ = f.withLock(func() error {
		f.watchers[wakeUp] = true
		return nil
	})
	defer func() {
		_ = f.withLock(func() error {
			delete(f.watchers, wakeUp)
			return nil
		})
	}()
	changed()
	for {
		select {
		case <-wakeUp:
			changed()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// WatchMounts implements [mount.TableWatcher].
func (f *Fake) WatchMounts(ctx context.Context, changed func(mount.TableChange)) error {
	w := &tableWatcher{wakeUp: make(chan struct{}, 1), seen: map[int]mount.MountChange{}}
	_ = f.withLock(func() error {
		w.recordChanges(&f.kernel)
		w.change = mount.TableChange{Everything: true}
		f.tableWatchers[w] = true
		return nil
	})
	defer func() {
		_ = f.withLock(func() error {
			delete(f.tableWatchers, w)
			return nil
		})
	}()
	for {
		var change mount.TableChange
		_ = f.withLock(func() error {
			change, w.change = w.change, mount.TableChange{}
			return nil
		})
		if change.Everything || len(change.Mounts) > 0 {
			changed(change)
		}
		select {
		case <-w.wakeUp:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A tableWatcher is a call of WatchMounts.
type tableWatcher struct {
	wakeUp chan struct{} // of length 1
	seen   map[int]mount.MountChange
	change mount.TableChange // not yet reported
}

// recordChanges records the changes since its previous call.
func (w *tableWatcher) recordChanges(k *kernel) {
	present := map[int]bool{}
	for _, m := range k.mounts {
		present[m.ID] = true
		now := mount.MountChange{ID: uint64(m.ID), Parent: uint64(m.Parent), Target: m.Mountpoint}
		if w.seen[m.ID] != now {
			w.seen[m.ID] = now
			w.change.Mounts = append(w.change.Mounts, now)
		}
	}
	for id := range w.seen {
		if !present[id] {
			delete(w.seen, id)
			w.change.Mounts = append(w.change.Mounts, mount.MountChange{ID: uint64(id)})
		}
	}
}

// notifyWatchers wakes the watchers.
func (f *Fake) notifyWatchers() {
	f.lock()
	defer f.mu.Unlock()
	for w := range f.tableWatchers {
		w.recordChanges(&f.kernel)
		signal(w.wakeUp)
	}
	for wakeUp := range f.watchers {
		signal(wakeUp)
	}
}

func signal(wakeUp chan struct{}) {
	select {
	case wakeUp <- struct{}{}:
	default:
	}
}
