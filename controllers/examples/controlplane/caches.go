package main

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// caches are the caches of the selected controllers. A kind that no controller uses has none.
type caches struct {
	cluster api.Cluster
	config  api.CacheConfig
	runs    []func(context.Context) error

	pods    *api.Cache[*v1.Pod]
	claims  *api.Cache[*v1.PersistentVolumeClaim]
	volumes *api.Cache[*v1.PersistentVolume]
	classes *api.Cache[*storagev1.StorageClass]
}

func (c *caches) ofPods() *api.Cache[*v1.Pod] { return use(c, &c.pods, c.cluster.Pods("")) }

func (c *caches) ofClaims() *api.Cache[*v1.PersistentVolumeClaim] {
	return use(c, &c.claims, c.cluster.PersistentVolumeClaims(""))
}

func (c *caches) ofVolumes() *api.Cache[*v1.PersistentVolume] {
	return use(c, &c.volumes, c.cluster.PersistentVolumes())
}

func (c *caches) ofClasses() *api.Cache[*storagev1.StorageClass] {
	return use(c, &c.classes, c.cluster.StorageClasses())
}

// use returns a cache, a new one if there was none.
func use[O api.Object, L api.List](c *caches, cache **api.Cache[O], reader api.Reader[O, L]) *api.Cache[O] {
	if *cache == nil {
		*cache = api.NewCache(reader, c.config)
		c.runs = append(c.runs, (*cache).Run)
	}
	return *cache
}
