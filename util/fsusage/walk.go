package fsusage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// A Tree is what a directory and all that is in it take of their file system.
type Tree struct {
	Bytes  int64 // that are allocated; of a file with several names once
	Inodes int64 // files of all kinds, the directory among them
	// Unread is how many directories could not be read, and files looked at; those
	// files, and what is in those directories, are missing.
	Unread int64
	Time   time.Time // when it was counted, to the end
}

// A Walker counts what is in directories, for volumes that have no file system of
// their own. The zero value is ready for use, and safe for concurrent use; it must not
// be copied.
//
// A walk follows no symbolic link and leaves out what is mounted in the directory, and
// other subvolumes of btrfs. (Before Linux 5.8 it does not see what is bound there from
// the same file system.) It goes by descriptor, so whoever renames directories
// meanwhile makes it count something twice or not at all, but never leave the file
// system. Memory and descriptors do not grow with what is in a directory, but for the
// names of the directories on the way down and the files with several names, the first
// million of which are counted once.
type Walker struct {
	// MaxAge is for how long what was counted is told again. Zero: not at all.
	MaxAge time.Duration

	mu    sync.Mutex // guards walks and what is in them, but for their progress
	walks map[place]*walk
}

// Walk is that of a [Walker] which remembers nothing.
func Walk(ctx context.Context, dir string) (Tree, error) {
	var w Walker
	return w.Walk(ctx, dir)
}

// Walk returns what is at dir, which may be a file as well. Calls for the same
// directory share one walk, which may have begun before. It returns soon after ctx ends,
// with an error that wraps ctx's and its cause; the walk then stops where it is, and the
// next call goes on from there: so a directory for which there is never enough time is
// counted in the end. What changes behind the walk's back is in the next one.
//
// A directory that is missing is an error that wraps fs.ErrNotExist. What cannot be
// read, further down, is counted in the Tree's Unread; but that there are no descriptors
// left, or no memory, is an error, and the next call begins anew.
func (w *Walker) Walk(ctx context.Context, dir string) (Tree, error) {
	for {
		if ctx.Err() != nil {
			return Tree{}, ended(ctx, dir)
		}
		run := w.join(place{path: dir, mount: mountAt(dir)})
		select {
		case <-run.done:
			if !errors.Is(run.err, errPaused) {
				return run.tree, run.err
			}
		case <-ctx.Done():
			run.leave()
			return Tree{}, ended(ctx, dir)
		}
	}
}

func ended(ctx context.Context, dir string) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("counting what is in %s: %w", dir, cause)
}

// errPaused ends a run that nobody waits for.
var errPaused = errors.New("nobody waits")

// A walk is what is known of one directory.
type walk struct {
	now  *run      // nil: nobody is at work
	used time.Time // last

	// The one at work has these.
	last     Tree
	of       identity  // whose last is; zero: there is none
	progress *progress // of a walk that has been paused; nil: there is none
}

// A run is somebody at work on a walk, for as long as anybody waits.
type run struct {
	waiting atomic.Int64
	done    chan struct{}
	tree    Tree // once done is closed
	err     error
}

func (r *run) leave() { r.waiting.Add(-1) }

func (r *run) stop() bool { return r.waiting.Load() <= 0 }

// join waits for the run at work on a place, after it has started one if there is none.
func (w *Walker) join(at place) *run {
	w.mu.Lock()
	defer w.mu.Unlock()
	k, ok := w.walks[at]
	if !ok {
		k = w.add(at)
	}
	k.used = time.Now()
	if k.now != nil {
		k.now.waiting.Add(1)
		return k.now
	}
	r := &run{done: make(chan struct{})}
	r.waiting.Add(1)
	k.now = r
	go w.work(at, k, r)
	return r
}

// add forgets what nobody has asked for in an hour.
func (w *Walker) add(at place) *walk {
	for other, k := range w.walks {
		if k.now == nil && time.Since(k.used) > time.Hour {
			delete(w.walks, other)
		}
	}
	if w.walks == nil {
		w.walks = map[place]*walk{}
	}
	k := &walk{}
	w.walks[at] = k
	return k
}

// work is the only one at work on k.
func (w *Walker) work(at place, k *walk, r *run) {
	r.tree, r.err = k.count(at.path, w.MaxAge, r.stop)
	w.mu.Lock()
	k.now = nil
	w.mu.Unlock()
	close(r.done)
}

// count goes on with the walk, or returns what it has found before.
func (k *walk) count(dir string, maxAge time.Duration, stop func() bool) (Tree, error) {
	root, err := openTree(dir)
	if err != nil {
		return Tree{}, err
	}
	defer root.close()
	if k.of == root.identity && time.Since(k.last.Time) < maxAge {
		return k.last, nil
	}
	if k.progress == nil || k.progress.of() != root.identity {
		k.progress = newProgress(root)
	}
	err = k.progress.goOn(root, stop)
	if err != nil && !errors.Is(err, errPaused) {
		k.progress = nil
		err = fmt.Errorf("counting what is in %s: %w", dir, err)
	}
	if err != nil {
		return Tree{}, err
	}
	k.last, k.of, k.progress = k.progress.tree, root.identity, nil
	k.last.Time = time.Now()
	return k.last, nil
}
