// Package claimpool runs a controller that works for claims and their volumes: it has the caches of both kinds, and
// calls a handler for each claim that is added.
package claimpool

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/caches"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
)

// Config configures a [Pool].
type Config struct {
	Controller string // its package, for errors
	Task       string // its work, for the log
	Cluster    interface {
		api.PersistentVolumeClaimsGetter
		api.PersistentVolumesGetter
	}
	// Claims and Volumes are caches of the embedder, which runs them. Nil: the pool builds and runs one.
	Claims  *api.Cache[*v1.PersistentVolumeClaim]
	Volumes *api.Cache[*v1.PersistentVolume]

	Handle func(ctx context.Context, claim api.Key) (workers.Result, error)
	// ClaimChanged and VolumeChanged add the claims that a change may be the cause of a step for.
	ClaimChanged  func(api.Change[*v1.PersistentVolumeClaim])
	VolumeChanged func(api.Change[*v1.PersistentVolume])

	// Events receives the denials of requests.
	Events func(api.Event)

	Workers             int
	Backoff, MaxBackoff time.Duration
	Logger              *slog.Logger
}

// A Pool calls the handler for the claims that are added. It acts only during Run.
type Pool struct {
	*workers.Pool[api.Key]
	Claims  *api.Objects[*v1.PersistentVolumeClaim]
	Volumes *api.Objects[*v1.PersistentVolume]

	config Config
	caches *caches.Set
}

// New returns a pool.
func New(config Config) (*Pool, error) {
	p := &Pool{config: config}
	p.openCaches()
	var err error
	p.Pool, err = workers.New(workers.Config[api.Key]{
		Name: config.Task, Handle: config.Handle, Denied: telemetry.Denied(p.Claims.Cache(), config.Events), Workers: config.Workers,
		Backoff: config.Backoff, MaxBackoff: config.MaxBackoff, Logger: config.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", config.Controller, err)
	}
	return p, nil
}

// openCaches opens and follows the caches.
func (p *Pool) openCaches() {
	p.caches = caches.New(p.config.Controller, 0, p.config.Logger)
	p.Claims = caches.OpenObjects(p.caches, p.config.Claims, p.config.Cluster.PersistentVolumeClaims)
	p.Volumes = caches.OpenObjects(p.caches, p.config.Volumes, api.ClusterScoped(p.config.Cluster.PersistentVolumes()))
	caches.Follow(p.caches, p.Claims.Cache(), p.config.ClaimChanged)
	caches.Follow(p.caches, p.Volumes.Cache(), p.config.VolumeChanged)
}

// Run works until ctx ends; then it returns nil, after all calls of the handler have returned. It fails at once if a
// cache of the embedder has objects of another kind. A second call returns an error.
func (p *Pool) Run(ctx context.Context) error { return p.caches.Run(ctx, nil, p.Pool.Run) }

// Synced reports whether the caches have listed their objects once.
func (p *Pool) Synced() bool { return p.caches.Synced() }
