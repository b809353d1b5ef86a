package apitest

import (
	"context"
	"errors"

	"github.com/volumekit/volumekit/controllers/api"
	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// A pointer is a pointer to an object.
type pointer[T any] interface {
	*T
	api.Object
	DeepCopyInto(*T)
}

// A client is the client of one kind, in one namespace or in all.
type client[T any, O pointer[T], L api.List] struct {
	cluster   *Cluster
	kind      *kind
	namespace string
	newList   func(meta metav1.ListMeta, items []T) L
}

// A statusClient is a client of a kind with a status subresource.
type statusClient[T any, O pointer[T], L api.List] struct{ client[T, O, L] }

var errNoName = errors.New("resource name may not be empty")

// of returns the call of a verb, for faults and records.
func (c client[T, O, L]) of(verb Verb, name string, subresources ...string) Call {
	call := Call{Verb: verb, Resource: c.kind.resource.Resource, Name: name}
	if c.kind.namespaced {
		call.Namespace = c.namespace
	}
	if len(subresources) > 0 {
		call.Subresource = subresources[0]
	}
	return call
}

// ofSelection returns the call of a list or a watch.
func (c client[T, O, L]) ofSelection(verb Verb, options metav1.ListOptions) Call {
	call := c.of(verb, "")
	call.FieldSelector, call.LabelSelector = options.FieldSelector, options.LabelSelector
	if options.FieldSelector == "" {
		return call
	}
	if selector, err := fields.ParseSelector(options.FieldSelector); err == nil {
		call.Name, _ = selector.RequiresExactMatch(metav1.ObjectNameField)
	}
	return call
}

func (c client[T, O, L]) key(name string) api.Key {
	if !c.kind.namespaced {
		return api.Key{Name: name}
	}
	return api.Key{Namespace: c.namespace, Name: name}
}

// object runs a call that returns a stored object, and returns a copy of the object.
func (c client[T, O, L]) object(ctx context.Context, call Call, effect func() (api.Object, error)) (O, error) {
	result, err := c.cluster.call(ctx, call, func() (any, error) { return effect() })
	if err != nil {
		return nil, err
	}
	copied := O(new(T))
	result.(O).DeepCopyInto(copied)
	return copied, nil
}

func (c client[T, O, L]) Get(ctx context.Context, name string, options metav1.GetOptions) (O, error) {
	if name == "" {
		return nil, errNoName
	}
	return c.object(ctx, c.of(Get, name), func() (api.Object, error) { return c.cluster.get(c.kind, c.key(name), options) })
}

func (c client[T, O, L]) List(ctx context.Context, options metav1.ListOptions) (list L, err error) {
	result, err := c.cluster.call(ctx, c.ofSelection(List, options), func() (any, error) {
		return c.cluster.list(c.kind, c.namespace, options)
	})
	if err != nil {
		return list, err
	}
	p := result.(page)
	items := make([]T, len(p.objects))
	for i, object := range p.objects {
		object.(O).DeepCopyInto(&items[i])
	}
	return c.newList(p.ListMeta, items), nil
}

func (c client[T, O, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	result, err := c.cluster.call(ctx, c.ofSelection(Watch, options), func() (any, error) {
		return c.cluster.watch(ctx, c.kind, c.namespace, options)
	})
	if err != nil {
		return nil, err
	}
	return result.(watch.Interface), nil
}

func (c client[T, O, L]) Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error) {
	return c.object(ctx, c.of(Create, object.GetName()), func() (api.Object, error) {
		return c.cluster.create(c.kind, c.namespace, object, options)
	})
}

func (c client[T, O, L]) Update(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	return c.updatePart(ctx, partMain, object, options)
}

func (c client[T, O, L]) updatePart(ctx context.Context, p part, object O, options metav1.UpdateOptions) (O, error) {
	if object.GetName() == "" {
		return nil, errNoName
	}
	call := c.of(Update, object.GetName())
	call.Subresource = string(p)
	return c.object(ctx, call, func() (api.Object, error) {
		return c.cluster.update(c.kind, c.namespace, p, object, options)
	})
}

func (c statusClient[T, O, L]) UpdateStatus(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	return c.updatePart(ctx, partStatus, object, options)
}

func (c client[T, O, L]) Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (O, error) {
	if name == "" {
		return nil, errNoName
	}
	return c.object(ctx, c.of(Patch, name, subresources...), func() (api.Object, error) {
		p, err := c.kind.partOf(subresources)
		if err != nil {
			return nil, err
		}
		return c.cluster.patch(c.kind, c.key(name), patchRequest{p, patchType, data, options})
	})
}

func (c client[T, O, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	if name == "" {
		return errNoName
	}
	_, err := c.cluster.call(ctx, c.of(Delete, name), func() (any, error) { return nil, c.cluster.delete(c.kind, c.key(name), options) })
	return err
}

// serviceAccounts is the client of service accounts.
type serviceAccounts struct {
	client[v1.ServiceAccount, *v1.ServiceAccount, *v1.ServiceAccountList]
}

func (c serviceAccounts) CreateToken(ctx context.Context, name string, request *authenticationv1.TokenRequest, options metav1.CreateOptions) (*authenticationv1.TokenRequest, error) {
	if name == "" {
		return nil, errNoName
	}
	result, err := c.cluster.call(ctx, c.of(Create, name, "token"), func() (any, error) {
		return c.cluster.createToken(c.key(name), request, options)
	})
	if err != nil {
		return nil, err
	}
	return result.(*authenticationv1.TokenRequest), nil
}
