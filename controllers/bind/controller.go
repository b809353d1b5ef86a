package bind

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/bind/internal/fit"
	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	"github.com/volumekit/volumekit/controllers/internal/sharedlist"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/util/keylock"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// A Controller binds claims and volumes. Create it with [New]; its methods are safe for concurrent use.
type Controller struct {
	config Config

	claims     *api.Objects[*v1.PersistentVolumeClaim]
	volumes    *api.Objects[*v1.PersistentVolume]
	classes    *api.Cache[*storagev1.StorageClass]
	caches     []runnable // those of the controller
	claimPool  *workers.Pool[api.Key]
	volumePool *workers.Pool[api.Key]
	// recyclePool has the volumes to be recycled. Recycling takes long: it occupies no other worker.
	recyclePool *workers.Pool[api.Key]
	plugins     []pluginController

	index     fit.Index
	claimants claimants
	woken     woken
	announced announced
	postponed postponed
	foreign   foreignMarks
	finishing finishing
	// claimLists are lists of all claims from the API server.
	claimLists sharedlist.Lists[[]v1.PersistentVolumeClaim]
	run        string // names this Controller in marks
	// locks lock volumes for writes, by their names: a claim and a volume have different workers.
	locks keylock.Map
	// busy is the number of claims that workers handle.
	busy        atomic.Int64
	ran         atomic.Bool
	unsubscribe []func()
}

type runnable interface{ Run(context.Context) error }

// New returns a controller. The error for an invalid configuration wraps a *field.Error. New fails if it cannot add
// an index to Config.Pods, such as one that has ended.
func New(config Config) (*Controller, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.setDefaults()
	c := &Controller{config: config, run: rand.Text()}
	c.claimLists.Read = c.listClaims
	c.openCaches()
	if config.Pods != nil {
		if err := claimindex.AddPods(config.Pods); err != nil {
			return nil, fmt.Errorf("bind: index the pods: %w", err)
		}
	}
	if err := c.openPools(); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	if err := c.openPlugins(); err != nil {
		return nil, fmt.Errorf("bind: %w", err)
	}
	return c, nil
}

// openCaches sets the caches: those of the embedder, or new ones. Their first lists are consistent:
// the controller must not act on claims of before an earlier run.
func (c *Controller) openCaches() {
	config := api.CacheConfig{Consistent: true, Resync: c.config.Resync, Logger: c.config.Logger}
	if c.config.Claims == nil {
		c.config.Claims = api.NewCache(c.config.Cluster.PersistentVolumeClaims(""), config)
		c.caches = append(c.caches, c.config.Claims)
	}
	if c.config.Volumes == nil {
		c.config.Volumes = api.NewCache(c.config.Cluster.PersistentVolumes(), config)
		c.caches = append(c.caches, c.config.Volumes)
	}
	if c.config.Classes == nil {
		c.config.Classes = api.NewCache(c.config.Cluster.StorageClasses(), config)
		c.caches = append(c.caches, c.config.Classes)
	}
	c.classes = c.config.Classes
	c.claims = api.NewObjects(c.config.Cluster.PersistentVolumeClaims, c.config.Claims)
	c.volumes = api.NewObjects(api.ClusterScoped(c.config.Cluster.PersistentVolumes()), c.config.Volumes)
	c.caches = append(c.caches, c.claims, c.volumes)
}

func (c *Controller) openPools() (err error) {
	open := func(name string, count int, handle func(context.Context, api.Key) (workers.Result, error), denied func(api.Key, error)) *workers.Pool[api.Key] {
		pool, poolErr := workers.New(workers.Config[api.Key]{
			Name: "bind " + name, Handle: handle, Denied: denied, Workers: count,
			Backoff: c.config.Backoff, MaxBackoff: c.config.MaxBackoff, Logger: c.config.Logger,
		})
		err = errors.Join(err, poolErr)
		return pool
	}
	ofClaim, ofVolume := telemetry.Denied(c.config.Claims, c.config.Events), telemetry.Denied(c.config.Volumes, c.config.Events)
	c.claimPool = open("claims", c.config.Workers, c.handleClaim, ofClaim)
	c.volumePool = open("volumes", c.config.Workers, c.handleVolume, ofVolume)
	c.recyclePool = open("recycling", c.config.Calls, c.handleRecycle, ofVolume)
	return err
}

// Run binds claims until ctx ends; then it returns nil, after all workers and all calls of plugins have
// ended. A later run, with empty memory, continues the work. Run fails at once if a cache of the
// embedder has objects of another kind. A second call returns an error.
func (c *Controller) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return errors.New("bind: a controller runs once")
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &running{ctx: ctx, cancel: cancel}
	if err := c.start(r); err != nil {
		r.fail(err)
	}
	<-ctx.Done()
	for _, stop := range c.unsubscribe {
		stop()
	}
	r.tasks.Wait()
	if r.err == nil || caller.Err() != nil {
		return nil
	}
	return fmt.Errorf("bind: %w", r.err)
}

// running are the tasks of a run. The first failure ends all of them.
type running struct {
	ctx    context.Context
	cancel context.CancelFunc
	tasks  sync.WaitGroup
	mu     sync.Mutex
	err    error
}

func (r *running) start(task runnable) {
	r.tasks.Go(func() {
		if err := task.Run(r.ctx); err != nil {
			r.fail(err)
		}
	})
}

func (r *running) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = errors.Join(r.err, err)
	r.cancel()
}

// start starts the caches and, once these have synced, the workers. The index has all volumes before the
// first claim is handled: otherwise the first claims would receive larger volumes than necessary.
func (c *Controller) start(r *running) error {
	for _, cache := range c.caches {
		r.start(cache)
	}
	waits := []func(context.Context) error{c.claims.Cache().WaitForSync, c.volumes.Cache().WaitForSync, c.classes.WaitForSync}
	if c.config.Pods != nil {
		waits = append(waits, c.config.Pods.WaitForSync)
	}
	for _, wait := range waits {
		if err := wait(r.ctx); err != nil {
			return err
		}
	}
	for _, pv := range c.volumes.Cache().List() {
		c.index.Set(pv)
	}
	for _, claim := range c.claims.Cache().List() {
		c.claimants.set(claim)
	}
	if err := c.subscribe(); err != nil {
		return err
	}
	for _, pool := range []runnable{c.claimPool, c.volumePool, c.recyclePool} {
		r.start(pool)
	}
	for _, plugin := range c.plugins {
		r.start(plugin)
	}
	return nil
}
