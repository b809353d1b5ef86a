package manifests

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Run reads the directory whenever something changes in it, until ctx ends, and returns
// its cause. It never gives up: a directory that is missing, or cannot be watched, is
// looked at each [Config.Poll]. While nothing changes it does nothing. Dir may be a
// symbolic link, or lead through some: one that is replaced is noticed. A file that is a
// symbolic link to another directory is looked at when something changes in this one.
//
// One Run at a time is enough.
func (s *Source) Run(ctx context.Context) error {
	look := make(chan struct{}, 1)
	var watcher sync.WaitGroup
	watcher.Go(func() { s.watchOrPoll(ctx, look) })
	defer watcher.Wait()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-look:
		}
		// An error was reported, and is tried again when the directory is.
		if wait, _ := s.read(); wait > 0 {
			time.AfterFunc(wait, func() { poke(look) })
		}
	}
}

// watchOrPoll asks for a look after each change, and where that is not told, again and
// again.
func (s *Source) watchOrPoll(ctx context.Context, look chan<- struct{}) {
	for ctx.Err() == nil {
		err := s.watch(ctx, s.config.Dir, func() { poke(look) }) // it has ended: look, and try it again
		poke(look)
		if errors.Is(err, errMoved) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(s.config.Poll):
		}
	}
}

// errMoved: the path of the directory may have come to lead to another one.
var errMoved = errors.New("the directory may be another one now")

func poke(look chan<- struct{}) {
	select {
	case look <- struct{}{}:
	default:
	}
}
