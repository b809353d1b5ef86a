// Package claimpool runs a controller that works for claims and their volumes: it has the caches of both kinds, and
// calls a handler for each claim that is added.
package claimpool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/internal/tasks"
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
	caches []func(context.Context) error // those of the pool
	ran    atomic.Bool
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

// openCaches sets the caches: those of the embedder, or new ones.
func (p *Pool) openCaches() {
	config := api.CacheConfig{Consistent: true, Logger: p.config.Logger}
	cluster, claims, volumes := p.config.Cluster, p.config.Claims, p.config.Volumes
	if claims == nil {
		claims = api.NewCache(cluster.PersistentVolumeClaims(""), config)
		p.caches = append(p.caches, claims.Run)
	}
	if volumes == nil {
		volumes = api.NewCache(cluster.PersistentVolumes(), config)
		p.caches = append(p.caches, volumes.Run)
	}
	p.Claims = api.NewObjects(cluster.PersistentVolumeClaims, claims)
	p.Volumes = api.NewObjects(api.ClusterScoped(cluster.PersistentVolumes()), volumes)
	p.caches = append(p.caches, p.Claims.Run, p.Volumes.Run)
}

// Run works until ctx ends; then it returns nil, after all calls of the handler have returned. It fails at once if a
// cache of the embedder has objects of another kind. A second call returns an error.
func (p *Pool) Run(ctx context.Context) error {
	if p.ran.Swap(true) {
		return errors.New(p.config.Controller + ": a controller runs once")
	}
	err := tasks.RunAll(ctx, append(p.caches, p.work)...)
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", p.config.Controller, err)
}

// work waits for the caches and calls the handler.
func (p *Pool) work(ctx context.Context) error {
	for _, wait := range []func(context.Context) error{p.Claims.Cache().WaitForSync, p.Volumes.Cache().WaitForSync} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	_, stopClaims, err := p.Claims.Cache().Subscribe(p.config.ClaimChanged)
	if err != nil {
		return err
	}
	defer stopClaims()
	_, stopVolumes, err := p.Volumes.Cache().Subscribe(p.config.VolumeChanged)
	if err != nil {
		return err
	}
	defer stopVolumes()
	return p.Pool.Run(ctx)
}
