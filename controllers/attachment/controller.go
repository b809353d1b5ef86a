package attachment

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/internal/tasks"
	"github.com/volumekit/volumekit/util/keylock"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// A Controller attaches the volumes of VolumeAttachments. It acts only during Run.
type Controller struct {
	config      Config
	rules       rules
	attachments *api.Objects[*storagev1.VolumeAttachment]
	volumes     *api.Objects[*v1.PersistentVolume]
	nodes       *api.Cache[*storagev1.CSINode]

	attachmentPool *workers.Pool[api.Key]
	volumePool     *workers.Pool[api.Key] // volumes whose finalizer may go
	// pairs locks a volume and a node for a call of the Attacher: two VolumeAttachments may name them.
	pairs      keylock.Map
	index      index
	attempts   attempts
	unexpected unexpected

	caches []func(context.Context) error // those of the controller
	ran    atomic.Bool
}

// New returns a controller. The error for an invalid configuration wraps a *field.Error.
func New(config Config) (*Controller, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.setDefaults()
	driver := config.Attacher.Name()
	c := &Controller{config: config, rules: rules{driver: driver, finalizer: Finalizer(driver), noPublish: config.NoPublish}}
	c.openCaches()
	if err := c.openPools(); err != nil {
		return nil, fmt.Errorf("attachment: %w", err)
	}
	return c, nil
}

// openCaches sets the caches: those of the embedder, or new ones.
func (c *Controller) openCaches() {
	config := api.CacheConfig{Consistent: true, Logger: c.config.Logger}
	cluster := c.config.Cluster
	attachments, volumes := c.config.Attachments, c.config.Volumes
	if attachments == nil {
		attachments = api.NewCache(cluster.VolumeAttachments(), config)
		c.caches = append(c.caches, attachments.Run)
	}
	if volumes == nil {
		volumes = api.NewCache(cluster.PersistentVolumes(), config)
		c.caches = append(c.caches, volumes.Run)
	}
	if c.nodes = c.config.Nodes; c.nodes == nil {
		c.nodes = api.NewCache(cluster.CSINodes(), config)
		c.caches = append(c.caches, c.nodes.Run)
	}
	c.attachments = api.NewObjects(api.ClusterScoped(cluster.VolumeAttachments()), attachments)
	c.volumes = api.NewObjects(api.ClusterScoped(cluster.PersistentVolumes()), volumes)
	c.caches = append(c.caches, c.attachments.Run, c.volumes.Run)
}

func (c *Controller) openPools() (err error) {
	config := workers.Config[api.Key]{
		Name: "VolumeAttachments of " + c.rules.driver, Handle: c.handleAttachment, Workers: c.config.Workers,
		Backoff: c.config.Backoff, MaxBackoff: c.config.MaxBackoff, Logger: c.config.Logger,
	}
	if c.attachmentPool, err = workers.New(config); err != nil {
		return err
	}
	config.Name, config.Handle = "PersistentVolumes of "+c.rules.driver, c.handleVolume
	c.volumePool, err = workers.New(config)
	return err
}

// Run works until ctx ends; then it returns nil, after all calls to the API server and of the Attacher have
// returned. A later run, with empty memory, continues the work. Run fails at once if a cache of the embedder
// has objects of another kind. A second call returns an error.
func (c *Controller) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return errors.New("attachment: a controller runs once")
	}
	err := tasks.RunAll(ctx, append(c.caches, c.work)...)
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("attachment: %w", err)
}

// work waits for the caches and runs the pools. The index has all VolumeAttachments before the first one is
// handled: a volume has no VolumeAttachment left only if the index has none.
func (c *Controller) work(ctx context.Context) error {
	for _, wait := range []func(context.Context) error{c.attachments.Cache().WaitForSync, c.volumes.Cache().WaitForSync, c.nodes.WaitForSync} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	for _, attachment := range c.attachments.Cache().List() {
		if c.own(attachment) != nil {
			c.index.set(attachment)
		}
	}
	unsubscribe, err := c.subscribe()
	defer unsubscribe()
	if err != nil {
		return err
	}
	running := []func(context.Context) error{c.attachmentPool.Run, c.volumePool.Run}
	if lister, ok := c.config.Attacher.(Lister); ok && !c.config.NoPublish {
		running = append(running, func(ctx context.Context) error { return c.runList(ctx, lister) })
	}
	return tasks.RunAll(ctx, running...)
}
