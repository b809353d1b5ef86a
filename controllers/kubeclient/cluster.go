package kubeclient

import (
	"github.com/volumekit/volumekit/controllers/api"
	"k8s.io/client-go/kubernetes"
)

// New returns the clients of a clientset. All calls share the connection and the rate limit of
// the clientset.
//
// Caches over client-go's fake clientset: from v0.35 on its watches do not begin with a list, and
// only the informers of its factory adapt to that. Wrap one of these informers:
// api.CacheOf[*v1.Pod](factory.Core().V1().Pods().Informer(), nil).
//
// ClusterTrustBundles and VolumeAttributesClasses are read and written in the newest version that the
// API server has.
func New(clientset kubernetes.Interface) api.Cluster {
	return cluster{clientset, newAttributesClasses(clientset), newTrustBundles(clientset)}
}

// A cluster returns client-go's typed clients, which satisfy the interfaces of package api, and those of
// kinds with several versions.
type cluster struct {
	clientset         kubernetes.Interface
	attributesClasses api.VolumeAttributesClasses
	trustBundles      api.ClusterTrustBundles
}

func (c cluster) Pods(namespace string) api.Pods { return c.clientset.CoreV1().Pods(namespace) }

func (c cluster) PersistentVolumeClaims(namespace string) api.PersistentVolumeClaims {
	return c.clientset.CoreV1().PersistentVolumeClaims(namespace)
}

func (c cluster) PersistentVolumes() api.PersistentVolumes {
	return c.clientset.CoreV1().PersistentVolumes()
}

func (c cluster) Nodes() api.Nodes { return c.clientset.CoreV1().Nodes() }

func (c cluster) Namespaces() api.Namespaces { return c.clientset.CoreV1().Namespaces() }

func (c cluster) ConfigMaps(namespace string) api.ConfigMaps {
	return c.clientset.CoreV1().ConfigMaps(namespace)
}

func (c cluster) Secrets(namespace string) api.Secrets {
	return c.clientset.CoreV1().Secrets(namespace)
}

func (c cluster) Events(namespace string) api.Events { return c.clientset.CoreV1().Events(namespace) }

func (c cluster) ServiceAccounts(namespace string) api.ServiceAccounts {
	return c.clientset.CoreV1().ServiceAccounts(namespace)
}

func (c cluster) StorageClasses() api.StorageClasses {
	return c.clientset.StorageV1().StorageClasses()
}

func (c cluster) VolumeAttachments() api.VolumeAttachments {
	return c.clientset.StorageV1().VolumeAttachments()
}

func (c cluster) CSINodes() api.CSINodes { return c.clientset.StorageV1().CSINodes() }

func (c cluster) CSIDrivers() api.CSIDrivers { return c.clientset.StorageV1().CSIDrivers() }

func (c cluster) CSIStorageCapacities(namespace string) api.CSIStorageCapacities {
	return c.clientset.StorageV1().CSIStorageCapacities(namespace)
}

func (c cluster) VolumeAttributesClasses() api.VolumeAttributesClasses { return c.attributesClasses }

func (c cluster) ClusterTrustBundles() api.ClusterTrustBundles { return c.trustBundles }
