package modify

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/attempts"
	"github.com/volumekit/volumekit/controllers/internal/claimpool"
	v1 "k8s.io/api/core/v1"
)

// A Controller changes the attributes of the volumes of claims. It acts only during Run.
type Controller struct {
	config   Config
	claims   *api.Objects[*v1.PersistentVolumeClaim]
	volumes  *api.Objects[*v1.PersistentVolume]
	pool     *claimpool.Pool
	attempts attempts.Map[attempt]
}

// New returns a controller. The error for an invalid configuration wraps a *field.Error.
func New(config Config) (*Controller, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.setDefaults()
	c := &Controller{config: config}
	var err error
	c.pool, err = claimpool.New(claimpool.Config{
		Controller: "modify", Task: "attributes of claims", Cluster: config.Cluster, Claims: config.Claims, Volumes: config.Volumes,
		Handle: c.handle, ClaimChanged: c.addClaim, VolumeChanged: c.addVolume, Events: config.Events,
		Workers: config.Workers, Backoff: config.Backoff, MaxBackoff: config.MaxBackoff, Logger: config.Logger,
	})
	if err != nil {
		return nil, err
	}
	c.claims, c.volumes = c.pool.Claims, c.pool.Volumes
	return c, nil
}

// Run works until ctx ends; then it returns nil, after all calls to the API server and of the Modifier
// have returned. A later run, with empty memory, continues the work. Run fails at once if a cache of the
// embedder has objects of another kind. A second call returns an error.
func (c *Controller) Run(ctx context.Context) error { return c.pool.Run(ctx) }

// Synced reports whether the caches of the controller have listed their objects once, for checks of readiness: those
// that it opens list during Run, those of the embedder when the embedder runs them.
func (c *Controller) Synced() bool { return c.pool.Synced() }
