package main

import (
	"context"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/attach"
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

	nodes       *api.Cache[*v1.Node]
	attachments *api.Cache[*storagev1.VolumeAttachment]
	drivers     *api.Cache[*storagev1.CSIDriver]
	csiNodes    *api.Cache[*storagev1.CSINode]
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

// ofAttacher returns the caches of the controller that attaches.
func (c *caches) ofAttacher() attach.Caches {
	return attach.Caches{
		Pods: c.ofPods(), Claims: c.ofClaims(), Volumes: c.ofVolumes(),
		Nodes:       use(c, &c.nodes, c.cluster.Nodes()),
		Attachments: use(c, &c.attachments, c.cluster.VolumeAttachments()),
		Drivers:     use(c, &c.drivers, c.cluster.CSIDrivers()),
		CSINodes:    use(c, &c.csiNodes, c.cluster.CSINodes()),
	}
}

// use returns a cache, a new one if there was none.
func use[O api.Object, L api.List](c *caches, cache **api.Cache[O], reader api.Reader[O, L]) *api.Cache[O] {
	if *cache == nil {
		*cache = api.NewCache(reader, c.config)
		c.runs = append(c.runs, (*cache).Run)
	}
	return *cache
}
