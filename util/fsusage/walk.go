package fsusage

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/keylock"
)

// A Tree is the use of a directory and everything below it.
type Tree struct {
	Bytes  int64 // allocated; a file with several names counts once
	Inodes int64 // files of all kinds, the directory included
	// Unread is the number of directories that could not be read and of files that could
	// not be inspected; those files, and the content of those directories, are missing.
	Unread int64
	Time   time.Time // of the end of the count
}

// A Walker measures directories, for volumes that have no file system of their own. The zero
// value is ready for use, and safe for concurrent use; it must not be copied.
//
// A walk follows no symbolic link and leaves out mounts inside the directory. Subvolumes of
// btrfs are part of it. (Before Linux 5.8 it does not recognise bind mounts from the same file
// system, and leaves out subvolumes.) It goes by descriptor: a concurrent rename can make it
// count a directory twice or not at all, but never leave the mount. Memory and descriptors do
// not grow with the number of files, except for the names of the directories on the path down
// and for files with several names, of which the first million count once.
type Walker struct {
	// MaxAge is the time for which a result is returned again. Zero: results are not kept.
	MaxAge time.Duration

	mu    sync.Mutex // guards walks and their fields, except for their progress
	walks map[place]*walk
}

// Walk measures a directory like [Walker.Walk], and keeps no result. Calls for one directory
// wait for each other, and for a system call that an earlier one has left behind.
func Walk(ctx context.Context, dir string) (_ Tree, err error) {
	defer brief.Shorten(&err)
	unlock, err := walking.Lock(ctx, dir)
	if err != nil {
		return Tree{}, endedError(ctx, dir)
	}
	var w Walker
	tree, err := w.Walk(ctx, dir)
	if left := w.runEnd(); left != nil {
		go func() { <-left; unlock() }()
	} else {
		unlock()
	}
	return tree, err
}

// walking has the directories of calls of [Walk] in flight.
var walking keylock.Map

// runEnd returns a channel that is closed when the current run ends, or nil without a run.
func (w *Walker) runEnd() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, k := range w.walks {
		if k.now != nil {
			return k.now.done
		}
	}
	return nil
}

// Walk measures dir, which may also be a file. Concurrent calls for one directory share a
// walk, which may have begun before the call. Walk returns soon after ctx ends, with an
// error that wraps ctx's and its cause; the walk then pauses, and the next call continues
// it: so a directory for which one call never has enough time is measured in the end.
// Changes behind the walk's position count in the next walk.
//
// The error of a missing directory wraps fs.ErrNotExist. Entries that cannot be read count
// in Tree.Unread. A lack of descriptors or of memory is an error, and the next call starts
// a new walk.
func (w *Walker) Walk(ctx context.Context, dir string) (_ Tree, err error) {
	defer brief.Shorten(&err)
	for {
		if ctx.Err() != nil {
			return Tree{}, endedError(ctx, dir)
		}
		run := w.join(place{path: dir, mount: mountAt(dir)})
		select {
		case <-run.done:
			if !errors.Is(run.err, errPaused) {
				return run.tree, run.err
			}
		case <-ctx.Done():
			run.leave()
			return Tree{}, endedError(ctx, dir)
		}
	}
}

func endedError(ctx context.Context, dir string) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, ctx.Err()) {
		cause = fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return fmt.Errorf("count the files in %s: %w", dir, cause)
}

// errPaused ends a run without waiting callers.
var errPaused = errors.New("no caller waits")

// A walk is the state of one directory.
type walk struct {
	now  *run      // nil: no run
	used time.Time // last

	// The fields below belong to the run.
	last     Tree
	of       identity  // the directory of last; zero: last is empty
	progress *progress // of a paused walk; nil: none
}

// A run advances a walk as long as callers wait.
type run struct {
	waiting atomic.Int64
	done    chan struct{}
	tree    Tree // valid once done is closed
	err     error
}

func (r *run) leave() { r.waiting.Add(-1) }

func (r *run) stop() bool { return r.waiting.Load() <= 0 }

// join returns the current run for a place, or starts one.
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

// add adds a walk, and drops those that were not used for an hour.
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

// work executes the run of a walk.
func (w *Walker) work(at place, k *walk, r *run) {
	r.tree, r.err = k.count(at.path, w.MaxAge, r.stop)
	w.mu.Lock()
	k.now = nil
	w.mu.Unlock()
	close(r.done)
}

// count continues the walk, or returns a result that is young enough.
func (k *walk) count(dir string, maxAge time.Duration, stop func() bool) (Tree, error) {
	root, err := openTree(dir)
	if err != nil {
		return Tree{}, err
	}
	defer root.close()
	if k.of == root.identity && time.Since(k.last.Time) < maxAge {
		return k.last, nil
	}
	if k.progress == nil || k.progress.root() != root.identity {
		k.progress = newProgress(root)
	}
	err = k.progress.resume(root, stop)
	if err != nil && !errors.Is(err, errPaused) {
		k.progress = nil
		err = fmt.Errorf("count the files in %s: %w", dir, beneath.NamePrivilege(err, beneath.ToChange))
	}
	if err != nil {
		return Tree{}, err
	}
	k.last, k.of, k.progress = k.progress.tree, root.identity, nil
	k.last.Time = time.Now()
	return k.last, nil
}
