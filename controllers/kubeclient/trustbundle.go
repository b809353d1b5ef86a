package kubeclient

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// trustBundles is the client of ClusterTrustBundles in the newest version that the server has. The
// versions have the same fields, and client-go v0.32 has the types of v1alpha1 only: the client
// reads and writes JSON.
type trustBundles struct {
	client  rest.Interface
	version atomic.Pointer[string] // nil: not known
}

// bundleVersions are the versions of the API, the newest first.
var bundleVersions = []string{"v1", "v1beta1", "v1alpha1"}

// newTrustBundles returns the client of a clientset. A fake clientset has no REST client, and gets
// the typed client.
func newTrustBundles(clientset kubernetes.Interface) api.ClusterTrustBundles {
	client := clientset.CertificatesV1().RESTClient()
	if real, ok := client.(*rest.RESTClient); ok && real == nil {
		return clientset.CertificatesV1alpha1().ClusterTrustBundles()
	}
	return &trustBundles{client: client}
}

// IsWatchListSemanticsUnSupported makes caches list before they watch.
func (t *trustBundles) IsWatchListSemanticsUnSupported() bool { return true }

// findVersion returns the newest version that the server has. Concurrent calls search for an unknown
// version independently, so that none waits for the request of another. The error is that of the
// last version if the server has none; the next call searches again.
func (t *trustBundles) findVersion(ctx context.Context) (string, error) {
	if version := t.version.Load(); version != nil {
		return *version, nil
	}
	var err error
	for _, version := range bundleVersions {
		one := metav1.ListOptions{Limit: 1}
		err = t.client.Get().AbsPath(pathOf(version)).VersionedParams(&one, scheme.ParameterCodec).
			SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Error()
		if err == nil {
			t.version.Store(&version)
			return version, nil
		}
		if !apierrors.IsNotFound(err) {
			break
		}
	}
	return "", err
}

func pathOf(version string) string {
	return "/apis/" + certificatesv1alpha1.GroupName + "/" + version + "/clustertrustbundles"
}

// request returns a request for the bundles, or for one of them with a name.
func (t *trustBundles) request(ctx context.Context, method, name string, options runtime.Object) (*rest.Request, error) {
	version, err := t.findVersion(ctx)
	if err != nil {
		return nil, err
	}
	path := pathOf(version)
	if name != "" {
		path += "/" + name
	}
	return t.client.Verb(method).AbsPath(path).VersionedParams(options, scheme.ParameterCodec).
		SetHeader("Accept", runtime.ContentTypeJSON), nil
}

// send sends a request with a body, which may be nil, and decodes the answer.
func send[O any](ctx context.Context, request *rest.Request, contentType string, body []byte) (*O, error) {
	if body != nil {
		request = request.SetHeader("Content-Type", contentType).Body(body)
	}
	text, err := request.Do(ctx).Raw()
	if err != nil {
		return nil, err
	}
	answer := new(O)
	if err := json.Unmarshal(text, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// withoutVersion returns a bundle as typed clients do: without kind and version.
func withoutVersion(b *certificatesv1alpha1.ClusterTrustBundle, err error) (*certificatesv1alpha1.ClusterTrustBundle, error) {
	if err != nil {
		return nil, err
	}
	b.TypeMeta = metav1.TypeMeta{}
	return b, nil
}

// encode returns a bundle as JSON in the version of the server.
func (t *trustBundles) encode(ctx context.Context, b *certificatesv1alpha1.ClusterTrustBundle) ([]byte, error) {
	version, err := t.findVersion(ctx)
	if err != nil {
		return nil, err
	}
	b = b.DeepCopy()
	b.TypeMeta = metav1.TypeMeta{Kind: "ClusterTrustBundle", APIVersion: certificatesv1alpha1.GroupName + "/" + version}
	return json.Marshal(b)
}

func (t *trustBundles) Get(ctx context.Context, name string, options metav1.GetOptions) (*certificatesv1alpha1.ClusterTrustBundle, error) {
	request, err := t.request(ctx, http.MethodGet, name, &options)
	if err != nil {
		return nil, err
	}
	return withoutVersion(send[certificatesv1alpha1.ClusterTrustBundle](ctx, request, "", nil))
}

func (t *trustBundles) List(ctx context.Context, options metav1.ListOptions) (*certificatesv1alpha1.ClusterTrustBundleList, error) {
	request, err := t.request(ctx, http.MethodGet, "", &options)
	if err != nil {
		return nil, err
	}
	list, err := send[certificatesv1alpha1.ClusterTrustBundleList](ctx, request, "", nil)
	if apierrors.IsNotFound(err) {
		t.version.Store(nil) // the server has another one since an upgrade
	}
	if err != nil {
		return nil, err
	}
	list.TypeMeta = metav1.TypeMeta{}
	for i := range list.Items {
		list.Items[i].TypeMeta = metav1.TypeMeta{}
	}
	return list, nil
}

func (t *trustBundles) Create(ctx context.Context, b *certificatesv1alpha1.ClusterTrustBundle, options metav1.CreateOptions) (*certificatesv1alpha1.ClusterTrustBundle, error) {
	return t.write(ctx, http.MethodPost, "", b, &options)
}

func (t *trustBundles) Update(ctx context.Context, b *certificatesv1alpha1.ClusterTrustBundle, options metav1.UpdateOptions) (*certificatesv1alpha1.ClusterTrustBundle, error) {
	return t.write(ctx, http.MethodPut, b.Name, b, &options)
}

func (t *trustBundles) write(ctx context.Context, method, name string, b *certificatesv1alpha1.ClusterTrustBundle, options runtime.Object) (*certificatesv1alpha1.ClusterTrustBundle, error) {
	body, err := t.encode(ctx, b)
	if err != nil {
		return nil, err
	}
	request, err := t.request(ctx, method, name, options)
	if err != nil {
		return nil, err
	}
	return withoutVersion(send[certificatesv1alpha1.ClusterTrustBundle](ctx, request, runtime.ContentTypeJSON, body))
}

func (t *trustBundles) Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions, subresources ...string) (*certificatesv1alpha1.ClusterTrustBundle, error) {
	for _, subresource := range subresources {
		name += "/" + subresource
	}
	request, err := t.request(ctx, http.MethodPatch, name, &options)
	if err != nil {
		return nil, err
	}
	return withoutVersion(send[certificatesv1alpha1.ClusterTrustBundle](ctx, request, string(patchType), data))
}

func (t *trustBundles) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	request, err := t.request(ctx, http.MethodDelete, name, &metav1.GetOptions{})
	if err != nil {
		return err
	}
	return request.Body(&options).Do(ctx).Error()
}

func (t *trustBundles) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	request, err := t.request(ctx, http.MethodGet, "", &options)
	if err != nil {
		return nil, err
	}
	body, err := request.Stream(ctx)
	if err != nil {
		return nil, err
	}
	return watch.NewStreamWatcher(&bundleEvents{body, json.NewDecoder(body)}, reporter{}), nil
}

// bundleEvents decodes the events of a watch.
type bundleEvents struct {
	body    io.ReadCloser
	decoder *json.Decoder
}

// Decode returns the next event, or an error at the end of the stream.
func (e *bundleEvents) Decode() (watch.EventType, runtime.Object, error) {
	var event metav1.WatchEvent
	if err := e.decoder.Decode(&event); err != nil {
		return "", nil, err
	}
	var object runtime.Object = new(certificatesv1alpha1.ClusterTrustBundle)
	if watch.EventType(event.Type) == watch.Error {
		object = new(metav1.Status)
	}
	if err := json.Unmarshal(event.Object.Raw, object); err != nil {
		return "", nil, err
	}
	if b, ok := object.(*certificatesv1alpha1.ClusterTrustBundle); ok {
		b.TypeMeta = metav1.TypeMeta{}
	}
	return watch.EventType(event.Type), object, nil
}

func (e *bundleEvents) Close() { _ = e.body.Close() }

// reporter makes the error of a stream that ends in the middle an event.
type reporter struct{}

func (reporter) AsObject(err error) runtime.Object {
	status := apierrors.NewInternalError(err).Status()
	return &status
}
