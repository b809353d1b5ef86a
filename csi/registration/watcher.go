package registration

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/volumekit/volumekit/csi"
	"github.com/volumekit/volumekit/internal/dirwatch"
	"github.com/volumekit/volumekit/internal/socketfile"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// A Watcher registers the drivers whose sockets are in a directory. It implements [csi.Drivers]. Its
// methods are safe for concurrent use.
type Watcher struct {
	config   Config
	watchDir func(ctx context.Context, dir string, changed dirwatch.Func) error
	registry registry
	writes   keylock.Map // locked, by driver name, by the write of the driver to the cluster

	mu      sync.Mutex // guards ran and removed
	ran     bool
	removed map[string]bool // paths that left the directory since the last scan

	// The fields below belong to the goroutine of Run.
	sockets map[string]*socket
	dirs    map[string]func() // ends the watch of a directory
	ages    uint64
	wake    chan struct{} // length 1
	work    sync.WaitGroup
}

// A socket is a socket with its attempts.
type socket struct {
	id  socketfile.Identity
	end context.CancelFunc
}

var _ csi.Drivers = (*Watcher)(nil)

// New returns a Watcher. Registrations need Run. The error is an *input.Error for an invalid field.
func New(config Config) (*Watcher, error) {
	config, err := config.checked()
	if err != nil {
		return nil, err
	}
	return &Watcher{
		config: config, watchDir: dirwatch.Watch, removed: map[string]bool{},
		sockets: map[string]*socket{}, dirs: map[string]func(){}, wake: make(chan struct{}, 1),
	}, nil
}

// Driver returns the registered driver of a name; ok is false if there is none. It does not block.
// After the end of Run the last state remains.
func (w *Watcher) Driver(name string) (driver csi.Driver, ok bool) {
	c, ok := w.registry.effective(name)
	return c.Driver, ok
}

var errRanBefore = errors.New("registration: a Watcher runs once")

// Run creates the directory, registers the drivers of the sockets in it, and follows changes until
// ctx ends; then it returns nil. A directory that is missing or cannot be read is read again after
// [Config].Poll. Drivers stay registered in the cluster after the end of Run, and without changes of
// the directory Run does nothing. A second call returns an error.
func (w *Watcher) Run(ctx context.Context) error {
	w.mu.Lock()
	ran := w.ran
	w.ran = true
	w.mu.Unlock()
	if ran {
		return errRanBefore
	}
	ctx, cancel := context.WithCancel(ctx)
	defer w.work.Wait()
	defer cancel()
	w.notify()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		w.scan(ctx)
	}
}

// notify makes Run scan the directory.
func (w *Watcher) notify() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// scan compares the directory with the sockets and watches of before.
func (w *Watcher) scan(ctx context.Context) {
	removed := w.takeRemoved()
	l, err := ctxend.Await(ctx, ctxend.Kernel, func() (listing, error) {
		if err := os.MkdirAll(w.config.Dir, 0o755); err != nil {
			return listing{dirs: []string{w.config.Dir}}, err
		}
		return list(w.config.Dir)
	}, nil)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		// Drivers stay registered: the error of a read does not mean that their sockets are gone.
		w.config.Logger.Warn("reading the directory of registrations failed", "dir", w.config.Dir, "err", err)
		time.AfterFunc(w.config.Poll, w.notify)
		return
	}
	if l.dropped > 0 {
		w.config.Logger.Warn("too many registration sockets, the newest ones are ignored", "ignored", l.dropped)
	}
	w.updateDirs(ctx, l.dirs)
	w.updateSockets(ctx, l.sockets, removed)
}

func (w *Watcher) takeRemoved() map[string]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	removed := w.removed
	w.removed = map[string]bool{}
	return removed
}

// updateSockets starts the attempts of new sockets and ends those of removed and replaced ones.
func (w *Watcher) updateSockets(ctx context.Context, all []found, removed map[string]bool) {
	present := map[string]found{}
	for _, f := range all {
		present[f.path] = f
	}
	for path, s := range w.sockets {
		if f, ok := present[path]; !ok || !f.id.IsSame(s.id) || removed[path] {
			s.end()
			delete(w.sockets, path)
		}
	}
	for _, f := range all {
		if w.sockets[f.path] != nil {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		w.sockets[f.path] = &socket{id: f.id, end: cancel}
		w.ages++
		r := &registrar{watcher: w, path: f.path, age: w.ages}
		w.work.Go(func() {
			defer cancel()
			r.run(own, ctx)
		})
	}
}

// updateDirs watches new directories and ends the watches of removed ones.
func (w *Watcher) updateDirs(ctx context.Context, dirs []string) {
	present := map[string]bool{}
	for _, dir := range dirs {
		present[dir] = true
		if w.dirs[dir] != nil {
			continue
		}
		own, cancel := context.WithCancel(ctx)
		w.dirs[dir] = cancel
		w.work.Go(func() {
			defer cancel()
			w.watch(own, dir)
		})
	}
	for dir, end := range w.dirs {
		if !present[dir] {
			end()
			delete(w.dirs, dir)
		}
	}
}

// watch makes Run scan after each change of a directory, and at each poll if the directory cannot be
// watched.
func (w *Watcher) watch(ctx context.Context, dir string) {
	for ctx.Err() == nil {
		_, err := ctxend.Await(ctx, ctxend.Kernel, func() (struct{}, error) {
			return struct{}{}, w.watchDir(ctx, dir, func(removed []string) { w.changed(dir, removed) })
		}, nil)
		w.notify()
		if errors.Is(err, dirwatch.ErrMoved) {
			continue
		}
		_ = ctxend.Sleep(ctx, w.config.Poll)
	}
}

// changed records the removed entries of a directory, for a socket may exist again by the time of the
// scan.
func (w *Watcher) changed(dir string, removed []string) {
	w.mu.Lock()
	for _, name := range removed {
		w.removed[filepath.Join(dir, name)] = true
	}
	w.mu.Unlock()
	w.notify()
}
