package kubeclient

import (
	"github.com/volumekit/volumekit/controllers/api"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	"k8s.io/client-go/kubernetes"
)

// newTrustBundles returns the client of ClusterTrustBundles. A fake clientset gets the typed client.
func newTrustBundles(clientset kubernetes.Interface) api.ClusterTrustBundles {
	client := clientset.CertificatesV1().RESTClient()
	if isFake(client) {
		return clientset.CertificatesV1alpha1().ClusterTrustBundles()
	}
	return &versioned[*certificatesv1alpha1.ClusterTrustBundle, *certificatesv1alpha1.ClusterTrustBundleList]{
		client: client, kind: certificatesv1alpha1.SchemeGroupVersion.WithKind("ClusterTrustBundle").GroupKind(), resource: "clustertrustbundles",
		versions: []string{"v1", "v1beta1", "v1alpha1"},
	}
}

// newAttributesClasses returns the client of VolumeAttributesClasses. A fake clientset gets the typed
// client.
func newAttributesClasses(clientset kubernetes.Interface) api.VolumeAttributesClasses {
	client := clientset.StorageV1().RESTClient()
	if isFake(client) {
		return clientset.StorageV1beta1().VolumeAttributesClasses()
	}
	return &versioned[*storagev1beta1.VolumeAttributesClass, *storagev1beta1.VolumeAttributesClassList]{
		client: client, kind: storagev1beta1.SchemeGroupVersion.WithKind("VolumeAttributesClass").GroupKind(), resource: "volumeattributesclasses",
		versions: []string{"v1", "v1beta1", "v1alpha1"},
	}
}
