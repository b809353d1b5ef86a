package ctrlruntime

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/volumekit/volumekit/controllers/api"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	storagev1beta1 "k8s.io/api/storage/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// NewCluster returns the clients of a client of controller-runtime, for programs and tests that have no configuration
// of a connection, such as one with the fake client. The client reads from the API server and not from a cache, as
// client.NewWithWatch returns it, and its scheme has the kinds of Kubernetes. [Host].Cluster needs no such client.
//
// Classes of volume attributes and trust bundles are read and written in the newest version that the client's
// RESTMapper knows; if it knows none, as that of the fake client, in storage.k8s.io/v1beta1 and
// certificates.k8s.io/v1alpha1. The fake client heeds no preconditions of deletions, and a cache on it misses what is
// written between its list and its watch.
func NewCluster(c client.WithWatch) api.Cluster { return cluster{c} }

type cluster struct{ client client.WithWatch }

func (c cluster) Pods(namespace string) api.Pods {
	return statusClient[*v1.Pod, *v1.PodList]{clientOf[*v1.Pod, *v1.PodList](c, namespace)}
}

func (c cluster) PersistentVolumeClaims(namespace string) api.PersistentVolumeClaims {
	return statusClient[*v1.PersistentVolumeClaim, *v1.PersistentVolumeClaimList]{clientOf[*v1.PersistentVolumeClaim, *v1.PersistentVolumeClaimList](c, namespace)}
}

func (c cluster) PersistentVolumes() api.PersistentVolumes {
	return statusClient[*v1.PersistentVolume, *v1.PersistentVolumeList]{clientOf[*v1.PersistentVolume, *v1.PersistentVolumeList](c, "")}
}

func (c cluster) Nodes() api.Nodes {
	return statusClient[*v1.Node, *v1.NodeList]{clientOf[*v1.Node, *v1.NodeList](c, "")}
}

func (c cluster) Namespaces() api.Namespaces {
	return statusClient[*v1.Namespace, *v1.NamespaceList]{clientOf[*v1.Namespace, *v1.NamespaceList](c, "")}
}

func (c cluster) VolumeAttachments() api.VolumeAttachments {
	return statusClient[*storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList]{clientOf[*storagev1.VolumeAttachment, *storagev1.VolumeAttachmentList](c, "")}
}

func (c cluster) ConfigMaps(namespace string) api.ConfigMaps {
	return clientOf[*v1.ConfigMap, *v1.ConfigMapList](c, namespace)
}

func (c cluster) Secrets(namespace string) api.Secrets {
	return clientOf[*v1.Secret, *v1.SecretList](c, namespace)
}

func (c cluster) Events(namespace string) api.Events {
	return clientOf[*v1.Event, *v1.EventList](c, namespace)
}

func (c cluster) ServiceAccounts(namespace string) api.ServiceAccounts {
	return serviceAccounts{clientOf[*v1.ServiceAccount, *v1.ServiceAccountList](c, namespace)}
}

func (c cluster) StorageClasses() api.StorageClasses {
	return clientOf[*storagev1.StorageClass, *storagev1.StorageClassList](c, "")
}

func (c cluster) CSINodes() api.CSINodes {
	return clientOf[*storagev1.CSINode, *storagev1.CSINodeList](c, "")
}

func (c cluster) CSIDrivers() api.CSIDrivers {
	return clientOf[*storagev1.CSIDriver, *storagev1.CSIDriverList](c, "")
}

func (c cluster) CSIStorageCapacities(namespace string) api.CSIStorageCapacities {
	return clientOf[*storagev1.CSIStorageCapacity, *storagev1.CSIStorageCapacityList](c, namespace)
}

func (c cluster) VolumeAttributesClasses() api.VolumeAttributesClasses {
	return versionClient[*storagev1beta1.VolumeAttributesClass, *storagev1beta1.VolumeAttributesClassList]{c.client, storagev1beta1.SchemeGroupVersion.WithKind("VolumeAttributesClass")}
}

func (c cluster) ClusterTrustBundles() api.ClusterTrustBundles {
	return versionClient[*certificatesv1alpha1.ClusterTrustBundle, *certificatesv1alpha1.ClusterTrustBundleList]{c.client, certificatesv1alpha1.SchemeGroupVersion.WithKind("ClusterTrustBundle")}
}

// A list is a pointer to a list of objects.
type list interface {
	client.ObjectList
	api.List
}

// A kindClient is the client of one kind, in one namespace or in all.
type kindClient[O client.Object, L list] struct {
	client    client.WithWatch
	namespace string
	newObject func() O
	newList   func() L
}

func clientOf[O client.Object, L list](c cluster, namespace string) kindClient[O, L] {
	return kindClient[O, L]{c.client, namespace, newOf[O], newOf[L]}
}

// newOf returns an empty value of a pointer type.
func newOf[P any]() P { return reflect.New(reflect.TypeFor[P]().Elem()).Interface().(P) }

// named returns an empty object with a name, and the error of client-go's clients for an empty name.
func (k kindClient[O, L]) named(name string) (O, error) {
	object := k.newObject()
	if name == "" {
		return object, fmt.Errorf("resource name may not be empty")
	}
	object.SetNamespace(k.namespace)
	object.SetName(name)
	return object, nil
}

// placed returns a copy of an object in the namespace of the client. It refuses an object of another namespace, which
// the client of controller-runtime would send there.
func (k kindClient[O, L]) placed(object O) (O, error) {
	object = object.DeepCopyObject().(O)
	if object.GetNamespace() == "" {
		object.SetNamespace(k.namespace)
	}
	if object.GetNamespace() != k.namespace {
		return object, apierrors.NewBadRequest(fmt.Sprintf("the namespace of the object is %q, that of the request %q", object.GetNamespace(), k.namespace))
	}
	return object, nil
}

// result returns the object of a call as client-go's clients do, without its kind, or nil with the error.
func result[O interface {
	GetObjectKind() schema.ObjectKind
}](object O, err error) (O, error) {
	if err != nil {
		return *new(O), err
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return object, nil
}

func (k kindClient[O, L]) Get(ctx context.Context, name string, options metav1.GetOptions) (O, error) {
	object, err := k.named(name)
	if err == nil {
		err = k.client.Get(ctx, client.ObjectKeyFromObject(object), object, &client.GetOptions{Raw: &options})
	}
	return result(object, err)
}

// listOptions returns options with those of client-go's clients. It refuses a selector that does not parse: the fake
// client would select all objects.
func (k kindClient[O, L]) listOptions(options metav1.ListOptions) (o *client.ListOptions, err error) {
	o = &client.ListOptions{Namespace: k.namespace, Limit: options.Limit, Continue: options.Continue, Raw: &options}
	if text := options.LabelSelector; text != "" {
		if o.LabelSelector, err = labels.Parse(text); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("label selector %q: %v", text, err))
		}
	}
	if text := options.FieldSelector; text != "" { // the fake client refuses an empty one
		if o.FieldSelector, err = fields.ParseSelector(text); err != nil {
			return nil, apierrors.NewBadRequest(fmt.Sprintf("field selector %q: %v", text, err))
		}
	}
	return o, nil
}

func (k kindClient[O, L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	objects := k.newList()
	o, err := k.listOptions(options)
	if err == nil {
		err = k.client.List(ctx, objects, o)
	}
	return result(objects, err)
}

func (k kindClient[O, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true // keeps the limit of the options
	o, err := k.listOptions(options)
	if err != nil {
		return nil, err
	}
	return k.client.Watch(ctx, k.newList(), o)
}

// IsWatchListSemanticsUnSupported makes caches list before they watch: the fake client streams no list, in some versions
// without a word of it.
func (k kindClient[O, L]) IsWatchListSemanticsUnSupported() bool { return true }

func (k kindClient[O, L]) Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error) {
	object, err := k.placed(object)
	if err == nil {
		err = k.client.Create(ctx, object, createOptions(options))
	}
	return result(object, err)
}

func createOptions(options metav1.CreateOptions) *client.CreateOptions {
	return &client.CreateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation, Raw: &options}
}

func updateOptions(options metav1.UpdateOptions) client.UpdateOptions {
	return client.UpdateOptions{DryRun: options.DryRun, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation, Raw: &options}
}

func (k kindClient[O, L]) Update(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	object, err := k.placed(object)
	if err == nil {
		o := updateOptions(options)
		err = k.client.Update(ctx, object, &o)
	}
	return result(object, err)
}

func (k kindClient[O, L]) Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (O, error) {
	object, err := k.named(name)
	if err != nil {
		return result(object, err)
	}
	patch := client.RawPatch(patchType, data)
	o := client.PatchOptions{DryRun: options.DryRun, Force: options.Force, FieldManager: options.FieldManager, FieldValidation: options.FieldValidation, Raw: &options}
	if len(subresources) > 0 {
		return result(object, k.client.SubResource(strings.Join(subresources, "/")).Patch(ctx, object, patch, &client.SubResourcePatchOptions{PatchOptions: o}))
	}
	return result(object, k.client.Patch(ctx, object, patch, &o))
}

func (k kindClient[O, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	object, err := k.named(name)
	if err != nil {
		return err
	}
	return k.client.Delete(ctx, object, &client.DeleteOptions{
		GracePeriodSeconds: options.GracePeriodSeconds, Preconditions: options.Preconditions,
		PropagationPolicy: options.PropagationPolicy, DryRun: options.DryRun, Raw: &options,
	})
}

// A statusClient is the client of a kind with a status.
type statusClient[O client.Object, L list] struct{ kindClient[O, L] }

func (s statusClient[O, L]) UpdateStatus(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	object, err := s.placed(object)
	if err == nil {
		err = s.client.Status().Update(ctx, object, &client.SubResourceUpdateOptions{UpdateOptions: updateOptions(options)})
	}
	return result(object, err)
}

type serviceAccounts struct {
	kindClient[*v1.ServiceAccount, *v1.ServiceAccountList]
}

func (s serviceAccounts) CreateToken(ctx context.Context, name string, request *authenticationv1.TokenRequest, options metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	account, err := s.named(name)
	if err != nil {
		return nil, err
	}
	request = request.DeepCopy()
	o := &client.SubResourceCreateOptions{CreateOptions: *createOptions(options)}
	return result(request, s.client.SubResource("token").Create(ctx, account, request, o))
}
