package httpapi

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	status = "status" // the subresource
	token  = "token"
)

// resources returns the resources of a cluster, in the order of discovery.
func resources(c api.Cluster) []resource {
	return []resource{
		newResource(v1.SchemeGroupVersion, "configmaps", "cm", namespaced(c.ConfigMaps)),
		newResource(v1.SchemeGroupVersion, "events", "ev", namespaced(c.Events)),
		newResource(v1.SchemeGroupVersion, "namespaces", "ns", clusterScoped(c.Namespaces)),
		newResource(v1.SchemeGroupVersion, "nodes", "no", clusterScoped(c.Nodes)),
		newResource(v1.SchemeGroupVersion, "persistentvolumeclaims", "pvc", namespaced(c.PersistentVolumeClaims)),
		newResource(v1.SchemeGroupVersion, "persistentvolumes", "pv", clusterScoped(c.PersistentVolumes)),
		newResource(v1.SchemeGroupVersion, "pods", "po", namespaced(c.Pods)),
		newResource(v1.SchemeGroupVersion, "secrets", "", namespaced(c.Secrets)),
		newResource(v1.SchemeGroupVersion, "serviceaccounts", "sa", namespaced(c.ServiceAccounts)),
		newResource(storagev1.SchemeGroupVersion, "csidrivers", "", clusterScoped(c.CSIDrivers)),
		newResource(storagev1.SchemeGroupVersion, "csinodes", "", clusterScoped(c.CSINodes)),
		newResource(storagev1.SchemeGroupVersion, "csistoragecapacities", "", namespaced(c.CSIStorageCapacities)),
		newResource(storagev1.SchemeGroupVersion, "storageclasses", "sc", clusterScoped(c.StorageClasses)),
		newResource(storagev1.SchemeGroupVersion, "volumeattachments", "", clusterScoped(c.VolumeAttachments)),
		newResource(storagev1beta1.SchemeGroupVersion, "volumeattributesclasses", "vac", clusterScoped(c.VolumeAttributesClasses)),
		newResource(certificatesv1alpha1.SchemeGroupVersion, "clustertrustbundles", "", clusterScoped(c.ClusterTrustBundles)),
	}
}

// A resource is a kind of the API with its calls.
type resource struct {
	gvk        schema.GroupVersionKind
	name       string // in paths
	short      string // the short name, for kubectl. "": none
	namespaced bool
	hasStatus  bool
	calls
}

func (r resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.gvk.Group, Resource: r.name}
}

// subresources returns the subresources.
func (r resource) subresources() []string {
	switch {
	case r.hasStatus:
		return []string{status}
	case r.calls.issuesTokens():
		return []string{token}
	}
	return nil
}

// calls are the calls of a kind. The namespace "" selects all.
type calls interface {
	get(ctx context.Context, namespace, name string, options metav1.GetOptions) (runtime.Object, error)
	list(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error)
	watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error)
	create(ctx context.Context, namespace string, object runtime.Object, options metav1.CreateOptions) (runtime.Object, error)
	update(ctx context.Context, namespace, subresource string, object runtime.Object, options metav1.UpdateOptions) (runtime.Object, error)
	patch(ctx context.Context, namespace, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (runtime.Object, error)
	delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
	createToken(ctx context.Context, namespace, name string, request *authenticationv1.TokenRequest, options metav1.CreateOptions) (runtime.Object, error)
	issuesTokens() bool
}

// A scope is a client for each namespace, or one for all.
type scope[C any] struct {
	namespaced bool
	client     func(namespace string) C
}

func namespaced[C any](client func(namespace string) C) scope[C] { return scope[C]{true, client} }

func clusterScoped[C any](client func() C) scope[C] {
	return scope[C]{false, func(string) C { return client() }}
}

// newResource returns the resource with the client of a kind.
func newResource[C api.Client[O, L], O api.Object, L api.List](group schema.GroupVersion, name, short string, s scope[C]) resource {
	_, hasStatus := any(s.client("")).(api.StatusWriter[O])
	return resource{
		gvk: group.WithKind(reflect.TypeFor[O]().Elem().Name()), name: name, short: short, namespaced: s.namespaced, hasStatus: hasStatus,
		calls: typed[C, O, L]{s.client},
	}
}

// typed are the calls by a typed client.
type typed[C api.Client[O, L], O api.Object, L api.List] struct {
	client func(namespace string) C
}

func (t typed[C, O, L]) get(ctx context.Context, namespace, name string, options metav1.GetOptions) (runtime.Object, error) {
	return t.client(namespace).Get(ctx, name, options)
}

func (t typed[C, O, L]) list(ctx context.Context, namespace string, options metav1.ListOptions) (runtime.Object, error) {
	return t.client(namespace).List(ctx, options)
}

func (t typed[C, O, L]) watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	return t.client(namespace).Watch(ctx, options)
}

func (t typed[C, O, L]) create(ctx context.Context, namespace string, object runtime.Object, options metav1.CreateOptions) (runtime.Object, error) {
	o, err := asKind[O](object)
	if err != nil {
		return nil, err
	}
	return t.client(namespace).Create(ctx, o, options)
}

func (t typed[C, O, L]) update(ctx context.Context, namespace, subresource string, object runtime.Object, options metav1.UpdateOptions) (runtime.Object, error) {
	o, err := asKind[O](object)
	if err != nil {
		return nil, err
	}
	client := t.client(namespace)
	if subresource == "" {
		return client.Update(ctx, o, options)
	}
	return any(client).(api.StatusWriter[O]).UpdateStatus(ctx, o, options)
}

func (t typed[C, O, L]) patch(ctx context.Context, namespace, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (runtime.Object, error) {
	return t.client(namespace).Patch(ctx, name, patchType, data, options, subresources...)
}

func (t typed[C, O, L]) delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error {
	return t.client(namespace).Delete(ctx, name, options)
}

func (t typed[C, O, L]) createToken(ctx context.Context, namespace, name string, request *authenticationv1.TokenRequest, options metav1.CreateOptions) (runtime.Object, error) {
	return any(t.client(namespace)).(api.ServiceAccounts).CreateToken(ctx, name, request, options)
}

func (t typed[C, O, L]) issuesTokens() bool {
	_, issues := any(t.client("")).(api.ServiceAccounts)
	return issues
}

// asKind returns the object of a request as one of the kind that the path names.
func asKind[O runtime.Object](object runtime.Object) (O, error) {
	o, ok := object.(O)
	if !ok {
		return o, apierrors.NewBadRequest(fmt.Sprintf("the object is of the kind %s, the path of the kind %s",
			strings.TrimPrefix(reflect.TypeOf(object).String(), "*"), reflect.TypeFor[O]().Elem()))
	}
	return o, nil
}
