package apitest

import (
	"github.com/volumekit/volumekit/controllers/api"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Pods returns the client of Pods in a namespace, or in all for "".
func (c *Cluster) Pods(namespace string) api.Pods {
	return statusClient[v1.Pod, *v1.Pod, *v1.PodList]{client[v1.Pod, *v1.Pod, *v1.PodList]{
		cluster: c, kind: podKind, namespace: namespace,
		newList: func(meta metav1.ListMeta, items []v1.Pod) *v1.PodList {
			return &v1.PodList{ListMeta: meta, Items: items}
		},
	}}
}

// PersistentVolumeClaims returns the client of PersistentVolumeClaims in a namespace, or in all for "".
func (c *Cluster) PersistentVolumeClaims(namespace string) api.PersistentVolumeClaims {
	return statusClient[v1.PersistentVolumeClaim, *v1.PersistentVolumeClaim, *v1.PersistentVolumeClaimList]{client[v1.PersistentVolumeClaim, *v1.PersistentVolumeClaim, *v1.PersistentVolumeClaimList]{
		cluster: c, kind: claimKind, namespace: namespace,
		newList: func(meta metav1.ListMeta, items []v1.PersistentVolumeClaim) *v1.PersistentVolumeClaimList {
			return &v1.PersistentVolumeClaimList{ListMeta: meta, Items: items}
		},
	}}
}

// PersistentVolumes returns the client of PersistentVolumes.
func (c *Cluster) PersistentVolumes() api.PersistentVolumes {
	return statusClient[v1.PersistentVolume, *v1.PersistentVolume, *v1.PersistentVolumeList]{client[v1.PersistentVolume, *v1.PersistentVolume, *v1.PersistentVolumeList]{
		cluster: c, kind: volumeKind, namespace: "",
		newList: func(meta metav1.ListMeta, items []v1.PersistentVolume) *v1.PersistentVolumeList {
			return &v1.PersistentVolumeList{ListMeta: meta, Items: items}
		},
	}}
}

// Nodes returns the client of Nodes.
func (c *Cluster) Nodes() api.Nodes {
	return statusClient[v1.Node, *v1.Node, *v1.NodeList]{client[v1.Node, *v1.Node, *v1.NodeList]{
		cluster: c, kind: nodeKind, namespace: "",
		newList: func(meta metav1.ListMeta, items []v1.Node) *v1.NodeList {
			return &v1.NodeList{ListMeta: meta, Items: items}
		},
	}}
}

// Namespaces returns the client of Namespaces.
func (c *Cluster) Namespaces() api.Namespaces {
	return statusClient[v1.Namespace, *v1.Namespace, *v1.NamespaceList]{client[v1.Namespace, *v1.Namespace, *v1.NamespaceList]{
		cluster: c, kind: namespaceKind, namespace: "",
		newList: func(meta metav1.ListMeta, items []v1.Namespace) *v1.NamespaceList {
			return &v1.NamespaceList{ListMeta: meta, Items: items}
		},
	}}
}

// ConfigMaps returns the client of ConfigMaps in a namespace, or in all for "".
func (c *Cluster) ConfigMaps(namespace string) api.ConfigMaps {
	return client[v1.ConfigMap, *v1.ConfigMap, *v1.ConfigMapList]{
		cluster: c, kind: configMapKind, namespace: namespace,
		newList: func(meta metav1.ListMeta, items []v1.ConfigMap) *v1.ConfigMapList {
			return &v1.ConfigMapList{ListMeta: meta, Items: items}
		},
	}
}

// Secrets returns the client of Secrets in a namespace, or in all for "".
func (c *Cluster) Secrets(namespace string) api.Secrets {
	return client[v1.Secret, *v1.Secret, *v1.SecretList]{
		cluster: c, kind: secretKind, namespace: namespace,
		newList: func(meta metav1.ListMeta, items []v1.Secret) *v1.SecretList {
			return &v1.SecretList{ListMeta: meta, Items: items}
		},
	}
}

// Events returns the client of Events in a namespace, or in all for "".
func (c *Cluster) Events(namespace string) api.Events {
	return client[v1.Event, *v1.Event, *v1.EventList]{
		cluster: c, kind: eventKind, namespace: namespace,
		newList: func(meta metav1.ListMeta, items []v1.Event) *v1.EventList {
			return &v1.EventList{ListMeta: meta, Items: items}
		},
	}
}

// ServiceAccounts returns the client of ServiceAccounts in a namespace, or in all for "".
func (c *Cluster) ServiceAccounts(namespace string) api.ServiceAccounts {
	return serviceAccounts{client[v1.ServiceAccount, *v1.ServiceAccount, *v1.ServiceAccountList]{
		cluster: c, kind: accountKind, namespace: namespace,
		newList: func(meta metav1.ListMeta, items []v1.ServiceAccount) *v1.ServiceAccountList {
			return &v1.ServiceAccountList{ListMeta: meta, Items: items}
		},
	}}
}

// StorageClasses returns the client of StorageClasses.
func (c *Cluster) StorageClasses() api.StorageClasses {
	return client[storagev1.StorageClass, *storagev1.StorageClass, *storagev1.StorageClassList]{
		cluster: c, kind: classKind, namespace: "",
		newList: func(meta metav1.ListMeta, items []storagev1.StorageClass) *storagev1.StorageClassList {
			return &storagev1.StorageClassList{ListMeta: meta, Items: items}
		},
	}
}

// VolumeAttachments returns the client of VolumeAttachments.
func (c *Cluster) VolumeAttachments() api.VolumeAttachments {
	return statusClient[storagev1.VolumeAttachment, *storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList]{client[storagev1.VolumeAttachment, *storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList]{
		cluster: c, kind: attachmentKind, namespace: "",
		newList: func(meta metav1.ListMeta, items []storagev1.VolumeAttachment) *storagev1.VolumeAttachmentList {
			return &storagev1.VolumeAttachmentList{ListMeta: meta, Items: items}
		},
	}}
}

// CSINodes returns the client of CSINodes.
func (c *Cluster) CSINodes() api.CSINodes {
	return client[storagev1.CSINode, *storagev1.CSINode, *storagev1.CSINodeList]{
		cluster: c, kind: csiNodeKind, namespace: "",
		newList: func(meta metav1.ListMeta, items []storagev1.CSINode) *storagev1.CSINodeList {
			return &storagev1.CSINodeList{ListMeta: meta, Items: items}
		},
	}
}

// CSIDrivers returns the client of CSIDrivers.
func (c *Cluster) CSIDrivers() api.CSIDrivers {
	return client[storagev1.CSIDriver, *storagev1.CSIDriver, *storagev1.CSIDriverList]{
		cluster: c, kind: csiDriverKind, namespace: "",
		newList: func(meta metav1.ListMeta, items []storagev1.CSIDriver) *storagev1.CSIDriverList {
			return &storagev1.CSIDriverList{ListMeta: meta, Items: items}
		},
	}
}

// CSIStorageCapacities returns the client of CSIStorageCapacities in a namespace, or in all for "".
func (c *Cluster) CSIStorageCapacities(namespace string) api.CSIStorageCapacities {
	return client[storagev1.CSIStorageCapacity, *storagev1.CSIStorageCapacity, *storagev1.CSIStorageCapacityList]{
		cluster: c, kind: capacityKind, namespace: namespace,
		newList: func(meta metav1.ListMeta, items []storagev1.CSIStorageCapacity) *storagev1.CSIStorageCapacityList {
			return &storagev1.CSIStorageCapacityList{ListMeta: meta, Items: items}
		},
	}
}

// VolumeAttributesClasses returns the client of VolumeAttributesClasses.
func (c *Cluster) VolumeAttributesClasses() api.VolumeAttributesClasses {
	return client[storagev1beta1.VolumeAttributesClass, *storagev1beta1.VolumeAttributesClass, *storagev1beta1.VolumeAttributesClassList]{
		cluster: c, kind: attributesKind, namespace: "",
		newList: func(meta metav1.ListMeta, items []storagev1beta1.VolumeAttributesClass) *storagev1beta1.VolumeAttributesClassList {
			return &storagev1beta1.VolumeAttributesClassList{ListMeta: meta, Items: items}
		},
	}
}

// ClusterTrustBundles returns the client of ClusterTrustBundles.
func (c *Cluster) ClusterTrustBundles() api.ClusterTrustBundles {
	return client[certificatesv1alpha1.ClusterTrustBundle, *certificatesv1alpha1.ClusterTrustBundle, *certificatesv1alpha1.ClusterTrustBundleList]{
		cluster: c, kind: bundleKind, namespace: "",
		newList: func(meta metav1.ListMeta, items []certificatesv1alpha1.ClusterTrustBundle) *certificatesv1alpha1.ClusterTrustBundleList {
			return &certificatesv1alpha1.ClusterTrustBundleList{ListMeta: meta, Items: items}
		},
	}
}
