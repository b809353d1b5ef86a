package bind

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/bind/internal/fit"
	"github.com/volumekit/volumekit/controllers/internal/caches"
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
	caches     *caches.Set
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
	busy atomic.Int64
}

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

// openCaches opens and follows the caches, and stores them for the plugins, which share them.
func (c *Controller) openCaches() {
	cluster := c.config.Cluster
	c.caches = caches.New("bind", c.config.Resync, c.config.Logger)
	c.claims = caches.OpenObjects(c.caches, c.config.Claims, cluster.PersistentVolumeClaims)
	c.volumes = caches.OpenObjects(c.caches, c.config.Volumes, api.ClusterScoped(cluster.PersistentVolumes()))
	c.classes = caches.Open(c.caches, c.config.Classes, cluster.StorageClasses())
	c.config.Claims, c.config.Volumes, c.config.Classes = c.claims.Cache(), c.volumes.Cache(), c.classes

	caches.Follow(c.caches, c.volumes.Cache(), c.addVolume)
	caches.Follow(c.caches, c.claims.Cache(), c.addClaim)
	caches.Follow(c.caches, c.classes, c.addClass)
	if c.config.Pods != nil {
		caches.Follow(c.caches, caches.Open[*v1.Pod, *v1.PodList](c.caches, c.config.Pods, nil), c.addPod)
	}
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
	work := []func(context.Context) error{c.claimPool.Run, c.volumePool.Run, c.recyclePool.Run}
	for _, plugin := range c.plugins {
		work = append(work, plugin.Run)
	}
	return c.caches.Run(ctx, c.indexCaches, work...)
}

// Synced reports whether the caches of the controller have listed their objects once, for checks of readiness: those
// that it opens list during Run, those of the embedder when the embedder runs them.
func (c *Controller) Synced() bool { return c.caches.Synced() }

// indexCaches indexes all volumes before the first claim is handled: otherwise the first claims would receive larger
// volumes than necessary.
func (c *Controller) indexCaches() {
	for _, pv := range c.volumes.Cache().List() {
		c.index.Set(pv)
	}
	for _, claim := range c.claims.Cache().List() {
		c.claimants.set(claim)
	}
}
