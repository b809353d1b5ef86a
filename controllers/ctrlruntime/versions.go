package ctrlruntime

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An anyClient is a client of objects without a type.
type anyClient = kindClient[*unstructured.Unstructured, *unstructured.UnstructuredList]

// A versionClient is the client of a cluster-scoped kind whose versions have the same fields, of which O is one: it
// uses the newest one that the API server has, by objects without a type.
type versionClient[O client.Object, L list] struct {
	client client.WithWatch
	kind   schema.GroupVersionKind // of O
}

// IsWatchListSemanticsUnSupported makes caches list before they watch, as that of a kindClient.
func (v versionClient[O, L]) IsWatchListSemanticsUnSupported() bool { return true }

// of returns the client of the newest version.
func (v versionClient[O, L]) of() (anyClient, error) {
	gvk := v.kind
	mapping, err := v.client.RESTMapper().RESTMapping(gvk.GroupKind(), "v1", "v1beta1", "v1alpha1")
	switch {
	case err == nil:
		gvk = mapping.GroupVersionKind
	case !meta.IsNoMatchError(err):
		return anyClient{}, err
	}
	return anyClient{
		client: v.client,
		newObject: func() *unstructured.Unstructured {
			u := &unstructured.Unstructured{}
			u.SetGroupVersionKind(gvk)
			return u
		},
		newList: func() *unstructured.UnstructuredList {
			u := &unstructured.UnstructuredList{}
			u.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
			return u
		},
	}, nil
}

// typed returns the object of a result.
func typed[O client.Object](u *unstructured.Unstructured, err error) (O, error) {
	if err != nil {
		return *new(O), err
	}
	object := newOf[O]()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, object); err != nil {
		return *new(O), err
	}
	return result(object, nil)
}

// untyped returns an object as one of the version of a client.
func untyped[O client.Object](k anyClient, object O) (*unstructured.Unstructured, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(k.newObject().GroupVersionKind())
	return u, nil
}

func (v versionClient[O, L]) Get(ctx context.Context, name string, options metav1.GetOptions) (O, error) {
	k, err := v.of()
	if err != nil {
		return *new(O), err
	}
	return typed[O](k.Get(ctx, name, options))
}

func (v versionClient[O, L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	k, err := v.of()
	if err != nil {
		return *new(L), err
	}
	found, err := k.List(ctx, options)
	if err != nil {
		return *new(L), err
	}
	objects := newOf[L]()
	objects.SetResourceVersion(found.GetResourceVersion())
	objects.SetContinue(found.GetContinue())
	objects.SetRemainingItemCount(found.GetRemainingItemCount())
	items := make([]runtime.Object, 0, len(found.Items))
	for i := range found.Items {
		object, err := typed[O](&found.Items[i], nil)
		if err != nil {
			return *new(L), err
		}
		items = append(items, object)
	}
	return objects, meta.SetList(objects, items)
}

func (v versionClient[O, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	k, err := v.of()
	if err != nil {
		return nil, err
	}
	events, err := k.Watch(ctx, options)
	if err != nil {
		return nil, err
	}
	return watch.Filter(events, func(event watch.Event) (watch.Event, bool) {
		u, ok := event.Object.(*unstructured.Unstructured)
		if !ok || event.Type == watch.Error { // the object is a status
			return event, true
		}
		object, err := typed[O](u, nil)
		if err != nil {
			status := apierrors.NewInternalError(err).Status()
			return watch.Event{Type: watch.Error, Object: &status}, true
		}
		return watch.Event{Type: event.Type, Object: object}, true
	}), nil
}

func (v versionClient[O, L]) Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error) {
	return v.write(object, func(k anyClient, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return k.Create(ctx, u, options)
	})
}

func (v versionClient[O, L]) Update(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	return v.write(object, func(k anyClient, u *unstructured.Unstructured) (*unstructured.Unstructured, error) {
		return k.Update(ctx, u, options)
	})
}

// write writes an object in the version of the client.
func (v versionClient[O, L]) write(object O, call func(anyClient, *unstructured.Unstructured) (*unstructured.Unstructured, error)) (O, error) {
	k, err := v.of()
	if err != nil {
		return *new(O), err
	}
	u, err := untyped(k, object)
	if err != nil {
		return *new(O), err
	}
	return typed[O](call(k, u))
}

func (v versionClient[O, L]) Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (O, error) {
	k, err := v.of()
	if err != nil {
		return *new(O), err
	}
	return typed[O](k.Patch(ctx, name, patchType, data, options, subresources...))
}

func (v versionClient[O, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	k, err := v.of()
	if err != nil {
		return err
	}
	return k.Delete(ctx, name, options)
}
