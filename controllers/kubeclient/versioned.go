package kubeclient

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// A versioned is the client of a cluster-scoped kind in the newest version that the server has. The
// versions of the kind have the same fields, and client-go v0.32 lacks the types of the newest one: the
// client reads and writes JSON, as objects of type O, whatever their version is called.
type versioned[O api.Object, L api.List] struct {
	client   rest.Interface
	kind     schema.GroupKind
	resource string
	versions []string // the newest one first
	served   atomic.Pointer[string]
}

// isFake reports whether a REST client is that of a fake clientset, which sends no requests.
func isFake(client rest.Interface) bool {
	real, ok := client.(*rest.RESTClient)
	return ok && real == nil
}

// IsWatchListSemanticsUnSupported makes caches list before they watch.
func (c *versioned[O, L]) IsWatchListSemanticsUnSupported() bool { return true }

// try makes a call in the version that the last successful call had, and then in the other ones, until
// the server has the version. The call needs no right but its own, as no request searches for versions.
func (c *versioned[O, L]) try(call func(version string) error) (err error) {
	last := c.served.Load()
	if last != nil {
		if err = call(*last); !isUnserved(err) {
			return err
		}
	}
	for _, version := range c.versions {
		if last != nil && version == *last {
			continue
		}
		if err = call(version); !isUnserved(err) {
			if err == nil {
				c.served.Store(&version)
			}
			return err
		}
	}
	return err
}

// isUnserved reports whether the server does not have the version of a request. A missing object is
// another error 404: that one has a status of the API.
func isUnserved(err error) bool {
	return apierrors.IsNotFound(err) && apierrors.IsUnexpectedServerError(err)
}

// request returns a request for the objects of a version, or for one of them with a name.
func (c *versioned[O, L]) request(method, version, name string, options runtime.Object) *rest.Request {
	path := "/apis/" + c.kind.Group + "/" + version + "/" + c.resource
	if name != "" {
		path += "/" + name
	}
	return c.client.Verb(method).AbsPath(path).VersionedParams(options, scheme.ParameterCodec).
		SetHeader("Accept", runtime.ContentTypeJSON)
}

// send sends a request and decodes the answer into object.
func send(ctx context.Context, request *rest.Request, object runtime.Object) error {
	result := request.Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	text, err := result.Raw()
	if err != nil {
		return err
	}
	return decode(text, object)
}

// decode decodes an object as typed clients do: without kind and version.
func decode(text []byte, object runtime.Object) error {
	if err := json.Unmarshal(text, object); err != nil {
		return err
	}
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return nil
}

// newOf returns an empty object of a pointer type.
func newOf[O any]() O { return reflect.New(reflect.TypeFor[O]().Elem()).Interface().(O) }

// answer returns the object of a call, or nil with its error.
func answer[O runtime.Object](object O, err error) (O, error) {
	if err != nil {
		return *new(O), err
	}
	return object, nil
}

func (c *versioned[O, L]) Get(ctx context.Context, name string, options metav1.GetOptions) (O, error) {
	object := newOf[O]()
	return answer(object, c.try(func(version string) error {
		return send(ctx, c.request(http.MethodGet, version, name, &options), object)
	}))
}

func (c *versioned[O, L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	list := newOf[L]()
	err := c.try(func(version string) error {
		return send(ctx, c.request(http.MethodGet, version, "", &options), list)
	})
	if err == nil {
		err = meta.EachListItem(list, func(object runtime.Object) error {
			object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
			return nil
		})
	}
	return answer(list, err)
}

func (c *versioned[O, L]) Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error) {
	return c.write(ctx, http.MethodPost, "", object, &options)
}

func (c *versioned[O, L]) Update(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	return c.write(ctx, http.MethodPut, object.GetName(), object, &options)
}

// write sends an object in the version of the request.
func (c *versioned[O, L]) write(ctx context.Context, method, name string, object O, options runtime.Object) (O, error) {
	stored := newOf[O]()
	return answer(stored, c.try(func(version string) error {
		sent := object.DeepCopyObject()
		sent.GetObjectKind().SetGroupVersionKind(c.kind.WithVersion(version))
		body, err := json.Marshal(sent)
		if err != nil {
			return err
		}
		request := c.request(method, version, name, options).SetHeader("Content-Type", runtime.ContentTypeJSON)
		return send(ctx, request.Body(body), stored)
	}))
}

func (c *versioned[O, L]) Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (O, error) {
	for _, subresource := range subresources {
		name += "/" + subresource
	}
	object := newOf[O]()
	return answer(object, c.try(func(version string) error {
		request := c.request(http.MethodPatch, version, name, &options).SetHeader("Content-Type", string(patchType))
		return send(ctx, request.Body(data), object)
	}))
}

func (c *versioned[O, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	return c.try(func(version string) error {
		return c.request(http.MethodDelete, version, name, &metav1.GetOptions{}).Body(&options).Do(ctx).Error()
	})
}

func (c *versioned[O, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	var body io.ReadCloser
	err := c.try(func(version string) (err error) {
		body, err = c.request(http.MethodGet, version, "", &options).Stream(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(&events[O]{body, json.NewDecoder(body)}, reporter{}), nil
}

// events decodes the events of a watch.
type events[O runtime.Object] struct {
	body    io.ReadCloser
	decoder *json.Decoder
}

// Decode returns the next event, or an error at the end of the stream.
func (e *events[O]) Decode() (watch.EventType, runtime.Object, error) {
	var event metav1.WatchEvent
	if err := e.decoder.Decode(&event); err != nil {
		return "", nil, err
	}
	if watch.EventType(event.Type) == watch.Error {
		status := new(metav1.Status)
		return watch.Error, status, json.Unmarshal(event.Object.Raw, status)
	}
	object := newOf[O]()
	return watch.EventType(event.Type), object, decode(event.Object.Raw, object)
}

func (e *events[O]) Close() { _ = e.body.Close() }

// reporter makes the error of a stream that ends in the middle an event.
type reporter struct{}

func (reporter) AsObject(err error) runtime.Object {
	status := apierrors.NewInternalError(err).Status()
	return &status
}
