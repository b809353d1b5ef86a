package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"

	"github.com/volumekit/volumekit/controllers/api"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A handler serves a cluster.
type handler struct {
	codec     codec
	resources []resource
}

// New returns a handler that serves a cluster. A call of the cluster that fails with an error of the API is
// answered with its status; any other failure, such as a lost connection, aborts the response.
func New(cluster api.Cluster) http.Handler { return &handler{newCodec(), resources(cluster)} }

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer := response{h.codec, w, r}
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		if document, ok := h.document(r.URL.Path); ok {
			answer.object(http.StatusOK, document, metav1.Unversioned)
			return
		}
		if text, ok := textOf(r.URL.Path); ok {
			w.Header().Set("Content-Type", http.DetectContentType(text))
			_, _ = w.Write(text) // a client that is gone reads nothing
			return
		}
	}
	t, ok := parseTarget(r.URL.Path)
	i := slices.IndexFunc(h.resources, func(k resource) bool {
		return k.gvk.GroupVersion() == t.GroupVersion && k.name == t.resource
	})
	if !ok || i < 0 || t.namespace != "" && !h.resources[i].namespaced {
		http.NotFound(w, r) // a text: clients tell a missing version from a missing object by it
		return
	}
	request{answer, t, h.resources[i]}.serve()
}

// A request is a request for objects of a resource.
type request struct {
	response
	target   target
	resource resource
}

// serve makes the call that the method and the path mean, and answers.
func (r request) serve() {
	ctx, t, method := r.r.Context(), r.target, r.r.Method
	if method == http.MethodHead { // net/http drops the body
		method = http.MethodGet
	}
	isObject := t.name != ""
	switch {
	case t.subresource != "" && !slices.Contains(r.resource.subresources(), t.subresource), isObject && r.resource.namespaced && t.namespace == "":
		http.NotFound(r.w, r.r)
	case t.subresource == token && method == http.MethodPost:
		answer, err := r.createToken(ctx)
		r.resultWith(http.StatusCreated, answer, err)
	case t.subresource == token:
		r.refuse()
	case isObject && method == http.MethodGet:
		r.result(r.get(ctx))
	case isObject && method == http.MethodPut:
		r.result(r.update(ctx))
	case isObject && method == http.MethodPatch:
		r.result(r.patch(ctx))
	case isObject && t.subresource == "" && method == http.MethodDelete:
		r.result(r.delete(ctx))
	case !isObject && method == http.MethodGet:
		r.list(ctx)
	case !isObject && method == http.MethodPost && (t.namespace != "" || !r.resource.namespaced):
		object, err := r.create(ctx)
		r.resultWith(http.StatusCreated, object, err)
	case !isObject && method == http.MethodDelete && (t.namespace != "" || !r.resource.namespaced):
		r.result(r.deleteAll(ctx))
	default:
		r.refuse()
	}
}

// refuse answers that the resource has no such method.
func (r request) refuse() {
	r.failure(apierrors.NewMethodNotSupported(r.resource.groupResource(), r.r.Method))
}

func (r request) result(object runtime.Object, err error) { r.resultWith(http.StatusOK, object, err) }

func (r request) resultWith(code int, object runtime.Object, err error) {
	if err != nil {
		r.failure(err)
		return
	}
	version := r.resource.gvk.GroupVersion()
	if _, ok := object.(*authenticationv1.TokenRequest); ok {
		version = authenticationv1.SchemeGroupVersion
	}
	r.object(code, object, version)
}

// options decodes the options in the query.
func (r request) options(into runtime.Object) error {
	if err := r.codec.parameters.DecodeParameters(r.r.URL.Query(), metav1.Unversioned, into); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}

// mostBody is the API server's limit of a body.
const mostBody = 3 << 20

// body reads the body.
func (r request) body() ([]byte, error) {
	body, err := io.ReadAll(http.MaxBytesReader(r.w, r.r.Body, mostBody))
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", long.Limit))
	}
	return body, err
}

// read reads the options and decodes the body as an object of a kind.
func (r request) read(options runtime.Object, gvk schema.GroupVersionKind) (runtime.Object, error) {
	if err := r.options(options); err != nil {
		return nil, err
	}
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	isStrict := r.r.URL.Query().Get("fieldValidation") == metav1.FieldValidationStrict
	return r.codec.decode(body, r.r.Header.Get("Content-Type"), gvk, isStrict)
}

func (r request) get(ctx context.Context) (runtime.Object, error) {
	var options metav1.GetOptions
	if err := r.options(&options); err != nil {
		return nil, err
	}
	return r.resource.get(ctx, r.target.namespace, r.target.name, options)
}

// list answers with a list, or with a watch.
func (r request) list(ctx context.Context) {
	var options metav1.ListOptions
	if err := r.options(&options); err != nil {
		r.failure(err)
		return
	}
	if !options.Watch {
		r.result(r.resource.list(ctx, r.target.namespace, options))
		return
	}
	f, err := r.codec.formatOf(r.r.Header, true)
	if err != nil {
		r.failure(err)
		return
	}
	events, err := r.resource.watch(ctx, r.target.namespace, options)
	if err != nil {
		r.failure(err)
		return
	}
	defer events.Stop()
	r.stream(events.ResultChan(), f, r.resource.gvk.GroupVersion())
}

func (r request) create(ctx context.Context) (runtime.Object, error) {
	var options metav1.CreateOptions
	object, err := r.read(&options, r.resource.gvk)
	if err != nil {
		return nil, err
	}
	return r.resource.create(ctx, r.target.namespace, object, options)
}

func (r request) createToken(ctx context.Context) (runtime.Object, error) {
	var options metav1.CreateOptions
	object, err := r.read(&options, authenticationv1.SchemeGroupVersion.WithKind("TokenRequest"))
	if err != nil {
		return nil, err
	}
	wanted, err := asKind[*authenticationv1.TokenRequest](object)
	if err != nil {
		return nil, err
	}
	return r.resource.createToken(ctx, r.target.namespace, r.target.name, wanted, options)
}

func (r request) update(ctx context.Context) (runtime.Object, error) {
	var options metav1.UpdateOptions
	object, err := r.read(&options, r.resource.gvk)
	if err != nil {
		return nil, err
	}
	if o, err := meta.Accessor(object); err != nil || o.GetName() != r.target.name {
		return nil, apierrors.NewBadRequest("the name of the object does not match the name in the path")
	}
	return r.resource.update(ctx, r.target.namespace, r.target.subresource, object, options)
}

func (r request) patch(ctx context.Context) (runtime.Object, error) {
	var options metav1.PatchOptions
	if err := r.options(&options); err != nil {
		return nil, err
	}
	body, err := r.body()
	if err != nil {
		return nil, err
	}
	patchType, _, err := mime.ParseMediaType(r.r.Header.Get("Content-Type"))
	if err != nil {
		patchType = "" // no type that the server has
	}
	var subresources []string
	if r.target.subresource != "" {
		subresources = append(subresources, r.target.subresource)
	}
	return r.resource.patch(ctx, r.target.namespace, r.target.name, types.PatchType(patchType), body, options, subresources...)
}

// deleteOptions returns the options in the body, or in the query if there is no body.
func (r request) deleteOptions() (options metav1.DeleteOptions, err error) {
	body, err := r.body()
	if err != nil {
		return options, err
	}
	if len(body) == 0 {
		return options, r.options(&options)
	}
	object, err := r.codec.decode(body, r.r.Header.Get("Content-Type"), r.resource.gvk.GroupVersion().WithKind("DeleteOptions"), false)
	if err != nil {
		return options, err
	}
	decoded, err := asKind[*metav1.DeleteOptions](object)
	if err != nil {
		return options, err
	}
	return *decoded, nil
}

// delete answers with a status, also for an object that its finalizers keep: an api.Cluster returns no deleted object.
func (r request) delete(ctx context.Context) (runtime.Object, error) {
	options, err := r.deleteOptions()
	if err != nil {
		return nil, err
	}
	if err := r.resource.delete(ctx, r.target.namespace, r.target.name, options); err != nil {
		return nil, err
	}
	return &metav1.Status{Status: metav1.StatusSuccess, Details: &metav1.StatusDetails{Group: r.resource.gvk.Group, Kind: r.resource.name, Name: r.target.name}}, nil
}

// deleteAll deletes the selected objects one after the other. An object that is gone meanwhile is no error.
func (r request) deleteAll(ctx context.Context) (runtime.Object, error) {
	var selected metav1.ListOptions
	if err := r.options(&selected); err != nil {
		return nil, err
	}
	options, err := r.deleteOptions()
	if err != nil {
		return nil, err
	}
	list, err := r.resource.list(ctx, r.target.namespace, selected)
	if err != nil {
		return nil, err
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		object, err := meta.Accessor(item)
		if err != nil {
			return err
		}
		if err := r.resource.delete(ctx, object.GetNamespace(), object.GetName(), options); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		return nil
	})
	return list, err
}

// A response answers a request.
type response struct {
	codec codec
	w     http.ResponseWriter
	r     *http.Request
}

// object answers with an object.
func (r response) object(code int, object runtime.Object, version schema.GroupVersion) {
	f, err := r.codec.formatOf(r.r.Header, false)
	if err != nil {
		r.failure(err)
		return
	}
	r.write(code, object, f, version)
}

// failure answers with the status of an error of the API, and aborts the response for any other error.
func (r response) failure(err error) {
	failed := apierrors.APIStatus(nil)
	if !errors.As(err, &failed) {
		panic(http.ErrAbortHandler) // net/http's way to end a connection without an answer
	}
	status := failed.Status()
	if status.Code == 0 {
		status.Code = http.StatusInternalServerError
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		r.w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	f, err := r.codec.formatOf(r.r.Header, false)
	if err != nil { // the client understands no answer: it gets one in JSON
		f, _ = r.codec.formatOf(nil, false)
	}
	r.write(int(status.Code), &status, f, metav1.Unversioned)
}

func (r response) write(code int, object runtime.Object, f format, version schema.GroupVersion) {
	text, err := r.codec.encode(object, f, version)
	if err != nil {
		http.Error(r.w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.w.Header().Set("Content-Type", f.MediaType)
	r.w.WriteHeader(code)
	_, _ = r.w.Write(text) // a client that is gone reads nothing
}
