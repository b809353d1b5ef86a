package protect

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/caches"
	"github.com/volumekit/volumekit/controllers/internal/claimindex"
	"github.com/volumekit/volumekit/controllers/internal/sharedlist"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/controllers/internal/workers"
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

	caches *caches.Set
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

// openCaches opens, indexes and follows the caches of the parts that run.
func (c *Controller) openCaches() error {
	cluster := c.config.Cluster
	c.caches = caches.New("protect", 0, c.config.Logger)
	c.claims = caches.OpenObjects(c.caches, c.config.Claims, cluster.PersistentVolumeClaims)
	caches.Follow(c.caches, c.claims.Cache(), c.addClaim)
	if !c.config.WithoutVolumes {
		c.volumes = caches.OpenObjects(c.caches, c.config.Volumes, api.ClusterScoped(cluster.PersistentVolumes()))
		caches.Follow(c.caches, c.volumes.Cache(), c.addVolume)
		if err := claimindex.Add(c.volumes.Cache(), volumesByClaim, claimKeysOfVolume); err != nil {
			return fmt.Errorf("index the volumes: %w", err)
		}
	}
	if c.config.WithoutClaims && c.config.WithoutEphemeral {
		return nil
	}
	c.pods = caches.Open(c.caches, c.config.Pods, cluster.Pods(""))
	caches.Follow(c.caches, c.pods, c.addPod)
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
	var pools []func(context.Context) error
	for _, pool := range []*workers.Pool[api.Key]{c.claimPool, c.volumePool, c.podPool} {
		if pool != nil {
			pools = append(pools, pool.Run)
		}
	}
	return c.caches.Run(ctx, nil, pools...)
}

// Synced reports whether the caches of the controller have listed their objects once, for checks of readiness: those
// that it opens list during Run, those of the embedder when the embedder runs them.
func (c *Controller) Synced() bool { return c.caches.Synced() }
