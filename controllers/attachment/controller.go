package attachment

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/caches"
	"github.com/volumekit/volumekit/controllers/internal/workers"
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

	caches *caches.Set
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

// openCaches opens and follows the caches.
func (c *Controller) openCaches() {
	cluster := c.config.Cluster
	c.caches = caches.New("attachment", 0, c.config.Logger)
	c.attachments = caches.OpenObjects(c.caches, c.config.Attachments, api.ClusterScoped(cluster.VolumeAttachments()))
	c.volumes = caches.OpenObjects(c.caches, c.config.Volumes, api.ClusterScoped(cluster.PersistentVolumes()))
	c.nodes = caches.Open(c.caches, c.config.Nodes, cluster.CSINodes())

	caches.Follow(c.caches, c.attachments.Cache(), c.addAttachment)
	caches.Follow(c.caches, c.volumes.Cache(), c.addVolume)
	caches.Follow(c.caches, c.nodes, c.addNode)
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
	work := []func(context.Context) error{c.attachmentPool.Run, c.volumePool.Run}
	if lister, ok := c.config.Attacher.(Lister); ok && !c.config.NoPublish {
		work = append(work, func(ctx context.Context) error { return c.runList(ctx, lister) })
	}
	return c.caches.Run(ctx, c.indexCache, work...)
}

// Synced reports whether the caches of the controller have listed their objects once, for checks of readiness: those
// that it opens list during Run, those of the embedder when the embedder runs them.
func (c *Controller) Synced() bool { return c.caches.Synced() }

// indexCache fills the index before the first VolumeAttachment is handled: a volume has no VolumeAttachment left only
// if the index has none.
func (c *Controller) indexCache() {
	for _, attachment := range c.attachments.Cache().List() {
		if c.own(attachment) != nil {
			c.index.set(attachment)
		}
	}
}
