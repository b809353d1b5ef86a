package protect

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	"github.com/volumekit/volumekit/controllers/internal/sharedlist"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/internal/tasks"
	v1 "k8s.io/api/core/v1"
)

// A Controller protects claims and volumes in use, and creates the claims of ephemeral volumes. It acts
// only during Run.
type Controller struct {
	config   Config
	podLists sharedlist.Lists[[]v1.Pod]

	claims  *api.Objects[*v1.PersistentVolumeClaim]
	volumes *api.Objects[*v1.PersistentVolume] // nil: volumes are not protected
	pods    *api.Cache[*v1.Pod]                // nil: only volumes are protected

	ofClaims  protection[*v1.PersistentVolumeClaim]
	ofVolumes protection[*v1.PersistentVolume]

	// The pools are nil for parts that are switched off.
	claimPool, volumePool, podPool *workers.Pool[api.Key]

	caches []func(context.Context) error // those of the controller
	ran    atomic.Bool
}

// leastReaders is the least number of claims whose workers may wait for a list of pods: a list serves all
// that wait for it.
const leastReaders = 64

// New returns a controller. The error for an invalid configuration wraps a *field.Error. New fails if
// it cannot add an index to a cache of the embedder, such as one that has ended.
func New(config Config) (*Controller, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.setDefaults()
	c := &Controller{config: config}
	c.podLists.Read = c.listPods
	if err := c.openCaches(); err != nil {
		return nil, fmt.Errorf("protect: %w", err)
	}
	c.ofClaims = protection[*v1.PersistentVolumeClaim]{
		objects: c.claims, finalizer: ClaimFinalizer, recheck: config.Recheck,
		inCache: c.inCache(keepsClaim), onServer: c.onServer(keepsClaim),
	}
	c.ofVolumes = protection[*v1.PersistentVolume]{
		objects: c.volumes, finalizer: VolumeFinalizer, isExact: true, recheck: config.Recheck,
		inCache: c.volumeInCache, onServer: c.volumeOnServer,
	}
	if err := c.openPools(); err != nil {
		return nil, fmt.Errorf("protect: %w", err)
	}
	return c, nil
}

// openCaches sets the caches of the parts that run: those of the embedder, or new ones.
func (c *Controller) openCaches() error {
	config := api.CacheConfig{Consistent: true, Logger: c.config.Logger}
	cluster := c.config.Cluster
	claims := c.config.Claims
	if claims == nil {
		claims = api.NewCache(cluster.PersistentVolumeClaims(""), config)
		c.caches = append(c.caches, claims.Run)
	}
	c.claims = api.NewObjects(cluster.PersistentVolumeClaims, claims)
	c.caches = append(c.caches, c.claims.Run)
	if !c.config.WithoutVolumes {
		volumes := c.config.Volumes
		if volumes == nil {
			volumes = api.NewCache(cluster.PersistentVolumes(), config)
			c.caches = append(c.caches, volumes.Run)
		}
		c.volumes = api.NewObjects(api.ClusterScoped(cluster.PersistentVolumes()), volumes)
		c.caches = append(c.caches, c.volumes.Run)
		if err := claimindex.Add(volumes, volumesByClaim, claimKeysOfVolume); err != nil {
			return fmt.Errorf("index the volumes: %w", err)
		}
	}
	if c.config.WithoutClaims && c.config.WithoutEphemeral {
		return nil
	}
	c.pods = c.config.Pods
	if c.pods == nil {
		c.pods = api.NewCache(cluster.Pods(""), config)
		c.caches = append(c.caches, c.pods.Run)
	}
	if err := claimindex.AddPods(c.pods); err != nil {
		return fmt.Errorf("index the pods: %w", err)
	}
	return nil
}

func (c *Controller) openPools() (err error) {
	ofClaim, ofVolume := telemetry.Denied(c.claims.Cache(), c.config.Events), func(api.Key, error) {}
	if c.volumes != nil {
		ofVolume = telemetry.Denied(c.volumes.Cache(), c.config.Events)
	}
	for _, part := range []struct {
		isOff   bool
		pool    **workers.Pool[api.Key]
		name    string
		handle  func(context.Context, api.Key) (workers.Result, error)
		denied  func(api.Key, error)
		workers int
	}{
		{c.config.WithoutClaims, &c.claimPool, "protection of claims", c.handleClaim, ofClaim, max(c.config.Workers, leastReaders)},
		{c.config.WithoutVolumes, &c.volumePool, "protection of volumes", c.ofVolumes.handle, ofVolume, c.config.Workers},
		{c.config.WithoutEphemeral, &c.podPool, "claims of ephemeral volumes", c.handlePod, nil, c.config.Workers}, // it has its own event
	} {
		if part.isOff {
			continue
		}
		*part.pool, err = workers.New(workers.Config[api.Key]{
			Name: part.name, Handle: part.handle, Denied: part.denied, Workers: part.workers,
			Backoff: c.config.Backoff, MaxBackoff: c.config.MaxBackoff, Logger: c.config.Logger,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Run works until ctx ends; then it returns nil, after all calls to the API server have returned. A
// later run, with empty memory, continues the work. Run fails at once if a cache of the embedder has
// objects of another kind. A second call returns an error.
func (c *Controller) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return errors.New("protect: a controller runs once")
	}
	err := tasks.RunAll(ctx, append(c.caches, c.work)...)
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("protect: %w", err)
}

// work waits for the caches and runs the pools.
func (c *Controller) work(ctx context.Context) error {
	waits := []func(context.Context) error{c.claims.Cache().WaitForSync}
	if c.volumes != nil {
		waits = append(waits, c.volumes.Cache().WaitForSync)
	}
	if c.pods != nil {
		waits = append(waits, c.pods.WaitForSync)
	}
	for _, wait := range waits {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	stop, err := c.subscribe()
	defer stop()
	if err != nil {
		return err
	}
	var pools []func(context.Context) error
	for _, pool := range []*workers.Pool[api.Key]{c.claimPool, c.volumePool, c.podPool} {
		if pool != nil {
			pools = append(pools, pool.Run)
		}
	}
	return tasks.RunAll(ctx, pools...)
}
