package unmounting

import (
	"context"
	"fmt"
	"sync"

	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/inflight"
	"github.com/volumekit/volumekit/mount/internal/mountinfo"
	"github.com/volumekit/volumekit/mount/internal/text"
	"github.com/volumekit/volumekit/util/ctxend"
)

// superblockEnds has the superblocks that have left the mount table and have not ended, by
// the path of their last mount. The zero value is ready for use.
type superblockEnds struct {
	mu      sync.Mutex
	pending map[string][]<-chan struct{}
}

// add remembers a superblock at path until ended is closed.
func (e *superblockEnds) add(path string, ended <-chan struct{}) {
	if isClosed(ended) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.pending == nil {
		e.pending = map[string][]<-chan struct{}{}
	}
	e.pending[path] = append(e.pending[path], ended)
	go func() { <-ended; e.pendingAt(path) }()
}

func isClosed(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// pendingAt returns the superblocks at path that have not ended, and forgets the others.
func (e *superblockEnds) pendingAt(path string) []<-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	var pending []<-chan struct{}
	for _, ended := range e.pending[path] {
		if !isClosed(ended) {
			pending = append(pending, ended)
		}
	}
	if len(pending) == 0 {
		delete(e.pending, path)
		return nil
	}
	e.pending[path] = pending
	return pending
}

// pathsAtOrBelow returns the paths of superblocks at or below dir.
func (e *superblockEnds) pathsAtOrBelow(dir string) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var paths []string
	for path := range e.pending {
		if _, ok := mountinfo.CutDir(dir, path); ok {
			paths = append(paths, path)
		}
	}
	return paths
}

// await waits for the ends of the superblocks at path.
func (e *superblockEnds) await(ctx context.Context, path string) error {
	for _, ended := range e.pendingAt(path) {
		if _, ok := ctxend.Receive(ctx, ended, inflight.Grace); !ok {
			return fmt.Errorf("%w: %w", failure.ErrNotEnded, ctxend.Error(ctx))
		}
	}
	return nil
}

// awaitTree waits for the ends of the superblocks at dir and below it.
func (e *superblockEnds) awaitTree(ctx context.Context, dir string) error {
	for _, path := range e.pathsAtOrBelow(dir) {
		if err := e.await(ctx, path); err != nil {
			return addMountPoint(path, err)
		}
	}
	return nil
}

// addMountPoint adds the mount point to the error of one of several mounts.
func addMountPoint(path string, err error) error {
	return fmt.Errorf("unmount %s: %w", text.Quote(path), err)
}
