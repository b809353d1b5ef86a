package api

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Clients of the kinds that a Cluster has.
type (
	Pods                   = StatusClient[*v1.Pod, *v1.PodList]
	PersistentVolumeClaims = StatusClient[*v1.PersistentVolumeClaim, *v1.PersistentVolumeClaimList]
	PersistentVolumes      = StatusClient[*v1.PersistentVolume, *v1.PersistentVolumeList]
	Nodes                  = StatusClient[*v1.Node, *v1.NodeList]
	Namespaces             = StatusClient[*v1.Namespace, *v1.NamespaceList]
	ConfigMaps             = Client[*v1.ConfigMap, *v1.ConfigMapList]
	Secrets                = Client[*v1.Secret, *v1.SecretList]
	Events                 = Client[*v1.Event, *v1.EventList]

	StorageClasses       = Client[*storagev1.StorageClass, *storagev1.StorageClassList]
	VolumeAttachments    = StatusClient[*storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList]
	CSINodes             = Client[*storagev1.CSINode, *storagev1.CSINodeList]
	CSIDrivers           = Client[*storagev1.CSIDriver, *storagev1.CSIDriverList]
	CSIStorageCapacities = Client[*storagev1.CSIStorageCapacity, *storagev1.CSIStorageCapacityList]
	// The versions v1alpha1, v1beta1 and v1 of VolumeAttributesClasses have the same fields. A server
	// without any of them fails all calls with the error 404.
	VolumeAttributesClasses = Client[*storagev1beta1.VolumeAttributesClass, *storagev1beta1.VolumeAttributesClassList]

	// The versions v1alpha1, v1beta1 and v1 of ClusterTrustBundles have the same fields. A server
	// without any of them fails all calls with the error 404.
	ClusterTrustBundles = Client[*certificatesv1alpha1.ClusterTrustBundle, *certificatesv1alpha1.ClusterTrustBundleList]
)

// ServiceAccounts is the client of service accounts. CreateToken requests a token by the
// TokenRequest API and returns the request with the token and its expiration in the status.
type ServiceAccounts interface {
	Client[*v1.ServiceAccount, *v1.ServiceAccountList]
	CreateToken(ctx context.Context, serviceAccountName string, request *authenticationv1.TokenRequest, opts metav1.CreateOptions) (*authenticationv1.TokenRequest, error)
}

// A Cluster returns the clients of an API server. The namespace "" selects all namespaces, for
// List and Watch. The methods of a Cluster do not call the API server, and are safe for concurrent
// use.
//
// A controller does not require a Cluster but the getters of its kinds, such as [PodsGetter].
// Releases add kinds: an implementation outside of this module embeds a Cluster, which may be
// nil, to compile with later releases.
type Cluster interface {
	PodsGetter
	PersistentVolumeClaimsGetter
	PersistentVolumesGetter
	NodesGetter
	NamespacesGetter
	ConfigMapsGetter
	SecretsGetter
	EventsGetter
	ServiceAccountsGetter
	StorageClassesGetter
	VolumeAttachmentsGetter
	CSINodesGetter
	CSIDriversGetter
	CSIStorageCapacitiesGetter
	VolumeAttributesClassesGetter
	ClusterTrustBundlesGetter
}

// Getters of the client of one kind.
type (
	PodsGetter                   interface{ Pods(namespace string) Pods }
	PersistentVolumeClaimsGetter interface {
		PersistentVolumeClaims(namespace string) PersistentVolumeClaims
	}
	PersistentVolumesGetter interface{ PersistentVolumes() PersistentVolumes }
	NodesGetter             interface{ Nodes() Nodes }
	NamespacesGetter        interface{ Namespaces() Namespaces }
	ConfigMapsGetter        interface {
		ConfigMaps(namespace string) ConfigMaps
	}
	SecretsGetter interface {
		Secrets(namespace string) Secrets
	}
	EventsGetter          interface{ Events(namespace string) Events }
	ServiceAccountsGetter interface {
		ServiceAccounts(namespace string) ServiceAccounts
	}
	StorageClassesGetter       interface{ StorageClasses() StorageClasses }
	VolumeAttachmentsGetter    interface{ VolumeAttachments() VolumeAttachments }
	CSINodesGetter             interface{ CSINodes() CSINodes }
	CSIDriversGetter           interface{ CSIDrivers() CSIDrivers }
	CSIStorageCapacitiesGetter interface {
		CSIStorageCapacities(namespace string) CSIStorageCapacities
	}
	VolumeAttributesClassesGetter interface {
		VolumeAttributesClasses() VolumeAttributesClasses
	}
	ClusterTrustBundlesGetter interface{ ClusterTrustBundles() ClusterTrustBundles }
)

// ClusterScoped returns a function that returns client for each namespace. It adapts the client of
// a cluster-scoped kind to functions that require a client for each namespace, such as
// [NewObjects].
func ClusterScoped[C any](client C) func(namespace string) C {
	return func(string) C { return client }
}
