package expand

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/internal/tasks"
	v1 "k8s.io/api/core/v1"
)

// A Controller expands the volumes of claims. It acts only during Run.
type Controller struct {
	config   Config
	claims   *api.Objects[*v1.PersistentVolumeClaim]
	volumes  *api.Objects[*v1.PersistentVolume]
	pool     *workers.Pool[api.Key]
	attempts attempts

	caches []func(context.Context) error // those of the controller
	ran    atomic.Bool
}

// New returns a controller. The error for an invalid configuration wraps a *field.Error.
func New(config Config) (*Controller, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.setDefaults()
	c := &Controller{config: config}
	c.openCaches()
	var err error
	c.pool, err = workers.New(workers.Config[api.Key]{
		Name: "expansion of claims", Handle: c.handle, Workers: config.Workers,
		Backoff: config.Backoff, MaxBackoff: config.MaxBackoff, Logger: config.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("expand: %w", err)
	}
	return c, nil
}

// openCaches sets the caches: those of the embedder, or new ones.
func (c *Controller) openCaches() {
	config := api.CacheConfig{Consistent: true, Logger: c.config.Logger}
	cluster := c.config.Cluster
	claims, volumes := c.config.Claims, c.config.Volumes
	if claims == nil {
		claims = api.NewCache(cluster.PersistentVolumeClaims(""), config)
		c.caches = append(c.caches, claims.Run)
	}
	if volumes == nil {
		volumes = api.NewCache(cluster.PersistentVolumes(), config)
		c.caches = append(c.caches, volumes.Run)
	}
	c.claims = api.NewObjects(cluster.PersistentVolumeClaims, claims)
	c.volumes = api.NewObjects(api.ClusterScoped(cluster.PersistentVolumes()), volumes)
	c.caches = append(c.caches, c.claims.Run, c.volumes.Run)
}

// Run works until ctx ends; then it returns nil, after all calls to the API server and of the Expander
// have returned. A later run, with empty memory, continues the work. Run fails at once if a cache of the
// embedder has objects of another kind. A second call returns an error.
func (c *Controller) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return errors.New("expand: a controller runs once")
	}
	err := tasks.RunAll(ctx, append(c.caches, c.work)...)
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("expand: %w", err)
}

// work waits for the caches and runs the pool.
func (c *Controller) work(ctx context.Context) error {
	for _, wait := range []func(context.Context) error{c.claims.Cache().WaitForSync, c.volumes.Cache().WaitForSync} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	_, stopClaims, err := c.claims.Cache().Subscribe(c.addClaim)
	if err != nil {
		return err
	}
	defer stopClaims()
	_, stopVolumes, err := c.volumes.Cache().Subscribe(c.addVolume)
	if err != nil {
		return err
	}
	defer stopVolumes()
	return c.pool.Run(ctx)
}
