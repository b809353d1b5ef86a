// Package fsusage tells how full a file system is, without waiting for ever for
// one whose server is gone.
package fsusage

import (
	"context"
	"fmt"
	"sync"
)

// Usage is what a file system holds and has room for. Nothing is negative; what is more
// than an int64 holds is the largest one. What the file system does not know is 0: if
// Capacity or Inodes is, so is what goes with it.
type Usage struct {
	Capacity, Used, Available      int64 // bytes; Available is for ordinary users
	Inodes, InodesUsed, InodesFree int64
}

// Stat asks the file system at path, statfs(2). It returns when ctx ends, with
// ctx's cause. The system call may then still wait for its server: as long as it
// does, further calls for the same path wait for that one, so that there is never
// more than one for each mount; but not if something else is mounted at path by
// then (Linux 5.12).
func Stat(ctx context.Context, path string) (Usage, error) {
	if err := context.Cause(ctx); err != nil {
		return Usage{}, err
	}
	q := ask(place{path, mountAt(path)})
	select {
	case <-q.done:
		return q.usage, q.err
	case <-ctx.Done():
		return Usage{}, fmt.Errorf("statfs %s does not return: %w", path, context.Cause(ctx))
	}
}

// A place is what is asked: a path, and the mount that it leads to, zero if that is
// not known.
type place struct {
	path  string
	mount uint64
}

// A question is a statfs under way. Its answer may be read once done is closed.
type question struct {
	done  chan struct{}
	usage Usage
	err   error
}

var (
	mu    sync.Mutex // guards asked
	asked = map[place]*question{}
)

// ask joins the question about the place that is under way, or asks it.
func ask(at place) *question {
	mu.Lock()
	defer mu.Unlock()
	if q, ok := asked[at]; ok {
		return q
	}
	q := &question{done: make(chan struct{})}
	asked[at] = q
	go func() {
		q.usage, q.err = statfs(at.path)
		mu.Lock()
		delete(asked, at)
		mu.Unlock()
		close(q.done)
	}()
	return q
}
