package sidecar

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// caches are those of the companions: the embedder's, or new ones. A kind that no companion uses has none.
type caches struct {
	config *Config
	run    []func(context.Context) error // the new ones
}

func (c *caches) claims() *api.Cache[*v1.PersistentVolumeClaim] {
	return use(c, &c.config.Claims, c.config.Cluster.PersistentVolumeClaims(""))
}

func (c *caches) volumes() *api.Cache[*v1.PersistentVolume] {
	return use(c, &c.config.Volumes, c.config.Cluster.PersistentVolumes())
}

func (c *caches) classes() *api.Cache[*storagev1.StorageClass] {
	return use(c, &c.config.Classes, c.config.Cluster.StorageClasses())
}

func (c *caches) attachments() *api.Cache[*storagev1.VolumeAttachment] {
	return use(c, &c.config.Attachments, c.config.Cluster.VolumeAttachments())
}

func (c *caches) csiNodes() *api.Cache[*storagev1.CSINode] {
	return use(c, &c.config.CSINodes, c.config.Cluster.CSINodes())
}

func (c *caches) nodes() *api.Cache[*v1.Node] {
	return use(c, &c.config.Nodes, api.Reader[*v1.Node, *v1.NodeList](nodeLabels{c.config.Cluster.Nodes()}))
}

// use returns a cache, a new one if there was none. The first lists of new ones are consistent: no companion
// acts on objects of before an earlier run.
func use[O api.Object, L api.List](c *caches, cache **api.Cache[O], reader api.Reader[O, L]) *api.Cache[O] {
	if *cache == nil {
		*cache = api.NewCache(reader, c.cacheConfig())
		c.run = append(c.run, (*cache).Run)
	}
	return *cache
}

func (c *caches) cacheConfig() api.CacheConfig {
	return api.CacheConfig{Consistent: true, Resync: c.config.Resync, Logger: c.config.Logger}
}
