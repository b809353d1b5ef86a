package manifests

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/volumekit/volumekit/internal/dirwatch"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/keylock"
)

// Run reads the directory after each change in it, until ctx ends, and returns nil.
// It never gives up: a directory that is missing, or cannot be watched, is read at each
// [Config.Poll]. While nothing changes it does nothing. Dir may be a symbolic link, or
// contain some: Run notices their replacement. A file that is a symbolic link to another
// directory is read when something changes in this directory.
//
// One Run at a time is enough. When ctx ends Run returns soon; on a file system that does
// not answer one system call for each directory may continue.
func (s *Source) Run(ctx context.Context) error {
	if s.config.Dir == "" {
		return fmt.Errorf("manifests: %w", errNoDir)
	}
	wake := make(chan struct{}, 1)
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watchOrPoll(ctx, wake) })
	defer watcher.Wait()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wake:
		}
		// The error was reported; the next change or poll retries.
		if wait, _ := s.readInTime(ctx); wait > 0 {
			time.AfterFunc(wait, func() { notify(wake) })
		}
	}
}

// watchOrPoll sends to wake after each change, or at each poll if the directory cannot be
// watched.
func (s *Source) watchOrPoll(ctx context.Context, wake chan<- struct{}) {
	for ctx.Err() == nil {
		err := s.watchInTime(ctx, func([]string) { notify(wake) }) // read once after the watch ends, and watch again
		notify(wake)
		if errors.Is(err, dirwatch.ErrMoved) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.config.Poll):
		}
	}
}

// watchInTime runs watch. It returns soon after ctx ends, also if a file system on the path
// hangs.
func (s *Source) watchInTime(ctx context.Context, changed dirwatch.Func) error {
	_, _, err := keylock.Await(ctx, s.watching.Key(""), ctxend.Kernel, func() (struct{}, error) {
		return struct{}{}, s.watch(ctx, s.config.Dir, changed)
	}, nil)
	return err
}

// notify sends to a channel of length one, unless a value is pending.
func notify(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
