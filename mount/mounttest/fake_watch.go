package mounttest

import (
	"context"

	"github.com/volumekit/volumekit/mount"
)

var _ mount.Watcher = (*Fake)(nil)

// Watch implements [mount.Watcher]: changed is called after each Mount, Unmount and
// UnmountTree, whatever came of it.
func (f *Fake) Watch(ctx context.Context, changed func()) error {
	told := make(chan struct{}, 1)
	_ = f.locked(func() error {
		f.watchers[told] = true
		return nil
	})
	defer func() {
		_ = f.locked(func() error {
			delete(f.watchers, told)
			return nil
		})
	}()
	changed()
	for {
		select {
		case <-told:
			changed()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// tell wakes those who watch.
func (f *Fake) tell() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for told := range f.watchers {
		select {
		case told <- struct{}{}:
		default:
		}
	}
}
