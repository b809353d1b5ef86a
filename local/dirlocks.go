package local

import (
	"context"
	"slices"
	"sync"

	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/ctxend"
)

// A place is a directory's location in its file system, independent of the path.
type place struct {
	major, minor uint32
	path         string
}

// overlaps reports whether one place is, or contains, the other.
func (p place) overlaps(other place) bool {
	return p.major == other.major && p.minor == other.minor &&
		(isOrIsBelow(p.path, other.path) || isOrIsBelow(other.path, p.path))
}

// dirLocks lock directories together with all directories that overlap them. They serialise
// calls of SetUp, from the search for current users of a directory to the mount that makes the
// call's pod a user. Locks are granted in the order of their requests. The lock comes after
// that of the volume's directory.
//
// To locate a directory requires the whole mount table. Shared locks avoid that: while no
// exclusive lock is held or requested they leave the location to the next exclusive one.
type dirLocks struct {
	mu   sync.Mutex
	list []*dirLock // held and requested locks, in order
}

// A lockMode says which locks of overlapping directories exclude each other: an exclusive lock
// and any other one.
type lockMode int

const (
	sharedLock lockMode = iota
	exclusiveLock
)

type dirLock struct {
	dir      string
	locate   func(dir string) place // nil: unknown, see dirLocks
	mode     lockMode
	released chan struct{}
}

// tryShare acquires a shared lock without the mount table. It returns false if an exclusive
// lock of any directory is held or requested.
func (l *dirLocks) tryShare(dir string) (release func(), ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.ContainsFunc(l.list, func(other *dirLock) bool { return other.mode == exclusiveLock }) {
		return nil, false
	}
	lock := &dirLock{dir: dir, released: make(chan struct{})}
	l.list = append(l.list, lock)
	return func() { l.remove(lock) }, true
}

// acquire waits for a lock. locate returns the places of directories.
func (l *dirLocks) acquire(ctx context.Context, dir string, locate func(dir string) place, mode lockMode) (release func(), err error) {
	lock := &dirLock{dir: dir, locate: locate, mode: mode, released: make(chan struct{})}
	for _, earlier := range l.enqueue(lock) {
		select {
		case <-earlier.released:
		case <-ctx.Done():
			l.remove(lock)
			return nil, util.Transient(ctxend.Error(ctx))
		}
	}
	return func() { l.remove(lock) }, nil
}

// enqueue appends a lock and returns the earlier locks that exclude it.
func (l *dirLocks) enqueue(lock *dirLock) (earlier []*dirLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range l.list {
		if (lock.mode == exclusiveLock || other.mode == exclusiveLock) && lock.overlaps(other) {
			earlier = append(earlier, other)
		}
	}
	l.list = append(l.list, lock)
	return earlier
}

// overlaps reports whether the directories of two locks overlap. The lock has a locate function.
func (l *dirLock) overlaps(other *dirLock) bool {
	locate := other.locate
	if locate == nil {
		locate = l.locate
	}
	return l.locate(l.dir).overlaps(locate(other.dir))
}

// remove releases a lock, or withdraws a request.
func (l *dirLocks) remove(lock *dirLock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = slices.DeleteFunc(l.list, func(other *dirLock) bool { return other == lock })
	close(lock.released)
}
