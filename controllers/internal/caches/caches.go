// Package caches runs a controller on its caches: those of its embedder, and those that it has opened itself.
package caches

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/internal/tasks"
)

// A Set has the caches of a controller. Open and follow the caches before Run.
type Set struct {
	controller string
	config     api.CacheConfig
	opened     []cache
	own        []func(context.Context) error // run by the set
	followers  []func() (stop func(), err error)
	ran        atomic.Bool
}

type cache interface {
	HasSynced() bool
	WaitForSync(context.Context) error
}

// New returns an empty set. controller is a package, for errors; the other parameters are those of a cache. The
// first list of a cache is consistent: a controller must not act on a state of before an earlier run.
func New(controller string, resync time.Duration, logger *slog.Logger) *Set {
	return &Set{controller: controller, config: api.CacheConfig{Consistent: true, Resync: resync, Logger: logger}}
}

// Open adds the cache of the embedder, or a new one if given is nil, and returns it.
func Open[O api.Object, L api.List](s *Set, given *api.Cache[O], reader api.Reader[O, L]) *api.Cache[O] {
	if given == nil {
		given = api.NewCache(reader, s.config)
		s.own = append(s.own, given.Run)
	}
	s.opened = append(s.opened, given)
	return given
}

// OpenObjects is Open for objects that the controller writes.
func OpenObjects[C api.Client[O, L], O api.Object, L api.List](s *Set, given *api.Cache[O], client func(namespace string) C) *api.Objects[O] {
	objects := api.NewObjects(client, Open[O, L](s, given, client("")))
	s.own = append(s.own, objects.Run)
	return objects
}

// Follow subscribes to a cache during Run: handle receives the first objects and the changes.
func Follow[O api.Object](s *Set, cache *api.Cache[O], handle func(api.Change[O])) {
	s.followers = append(s.followers, func() (func(), error) {
		_, stop, err := cache.Subscribe(handle)
		return stop, err
	})
}

// Synced reports whether each cache has listed its objects once.
func (s *Set) Synced() bool {
	for _, c := range s.opened {
		if !c.HasSynced() {
			return false
		}
	}
	return true
}

// Run runs the caches. Once all have synced it calls prepare, which may be nil, follows the caches, and runs the
// work, until ctx or a part of the work ends. It returns after all parts have ended, with nil if ctx has ended. A
// second call returns an error.
func (s *Set) Run(ctx context.Context, prepare func(), work ...func(context.Context) error) error {
	if s.ran.Swap(true) {
		return errors.New(s.controller + ": a controller runs once")
	}
	err := tasks.RunAll(ctx, append(s.own, func(ctx context.Context) error { return s.follow(ctx, prepare, work) })...)
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", s.controller, err)
}

// follow waits for the caches, follows them, and runs the work.
func (s *Set) follow(ctx context.Context, prepare func(), work []func(context.Context) error) error {
	for _, c := range s.opened {
		if err := c.WaitForSync(ctx); err != nil {
			return err
		}
	}
	if prepare != nil {
		prepare()
	}
	for _, follow := range s.followers {
		stop, err := follow()
		if err != nil {
			return err
		}
		defer stop()
	}
	return tasks.RunAll(ctx, work...)
}
