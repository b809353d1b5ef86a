package content

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volumekit/volumekit/internal/brief"
)

// A MapGetter holds ConfigMaps, Secrets, tokens and the like in memory: for tests, examples
// and programs without a cluster. It implements every getter of a [Config]. The zero value
// is empty. Methods are safe for concurrent use; objects are copied.
type MapGetter struct {
	mu          sync.Mutex
	configMaps  map[string]*v1.ConfigMap // by namespace/name
	secrets     map[string]*v1.Secret
	tokens      map[string][]byte // by namespace/service account
	bundles     map[string][]byte // by name, or by signer's name
	allocatable v1.ResourceList
}

var (
	_ ConfigMapGetter   = (*MapGetter)(nil)
	_ SecretGetter      = (*MapGetter)(nil)
	_ TokenGetter       = (*MapGetter)(nil)
	_ TrustBundleGetter = (*MapGetter)(nil)
	_ NodeGetter        = (*MapGetter)(nil)
)

// Format implements [fmt.Formatter]: it prints no content.
func (g *MapGetter) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, "content.MapGetter") }

// MarshalJSON returns the text of Format.
func (g *MapGetter) MarshalJSON() ([]byte, error) { return []byte(`"content.MapGetter"`), nil }

// Config returns a configuration with g as every getter. The mounter is missing.
func (g *MapGetter) Config() Config {
	return Config{ConfigMaps: g, Secrets: g, Tokens: g, TrustBundles: g, Node: g}
}

// SetConfigMap adds or replaces a ConfigMap.
func (g *MapGetter) SetConfigMap(object *v1.ConfigMap) {
	put(g, &g.configMaps, object.Namespace+"/"+object.Name, object.DeepCopy())
}

// DeleteConfigMap removes a ConfigMap, if it exists.
func (g *MapGetter) DeleteConfigMap(namespace, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.configMaps, namespace+"/"+name)
}

// SetSecret adds or replaces a Secret. StringData is merged into Data, as by the API server.
func (g *MapGetter) SetSecret(object *v1.Secret) {
	object = object.DeepCopy()
	if object.Data == nil {
		object.Data = map[string][]byte{}
	}
	for key, text := range object.StringData {
		object.Data[key] = []byte(text)
	}
	object.StringData = nil
	put(g, &g.secrets, object.Namespace+"/"+object.Name, object)
}

// DeleteSecret removes a Secret, if it exists.
func (g *MapGetter) DeleteSecret(namespace, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.secrets, namespace+"/"+name)
}

// SetToken sets the token of a service account, for all audiences.
func (g *MapGetter) SetToken(namespace, serviceAccount string, token []byte) {
	put(g, &g.tokens, namespace+"/"+serviceAccount, slices.Clone(token))
}

// SetTrustBundle sets the certificates of a bundle, or of a signer, by name.
func (g *MapGetter) SetTrustBundle(name string, pem []byte) {
	put(g, &g.bundles, name, slices.Clone(pem))
}

// SetNodeAllocatable sets the node's allocatable resources. Until then a container's limit
// that falls back to the node's is an error.
func (g *MapGetter) SetNodeAllocatable(list v1.ResourceList) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.allocatable = list.DeepCopy()
}

// GetConfigMap implements [ConfigMapGetter].
func (g *MapGetter) GetConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	object, err := get(ctx, g, &g.configMaps, "configmaps", namespace+"/"+name)
	return object.DeepCopy(), err
}

// GetSecret implements [SecretGetter].
func (g *MapGetter) GetSecret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	object, err := get(ctx, g, &g.secrets, "secrets", namespace+"/"+name)
	return object.DeepCopy(), err
}

// GetServiceAccountToken implements [TokenGetter]. A pod without a service account uses the
// service account "default".
func (g *MapGetter) GetServiceAccountToken(ctx context.Context, pod *v1.Pod, _ *v1.ServiceAccountTokenProjection) ([]byte, error) {
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	token, err := get(ctx, g, &g.tokens, "serviceaccounts", pod.Namespace+"/"+account)
	return slices.Clone(token), err
}

// GetTrustBundle implements [TrustBundleGetter]. It ignores label selectors.
func (g *MapGetter) GetTrustBundle(ctx context.Context, source *v1.ClusterTrustBundleProjection) ([]byte, error) {
	name := source.Name
	if name == nil {
		name = source.SignerName
	}
	pem, err := get(ctx, g, &g.bundles, "clustertrustbundles", *name)
	return slices.Clone(pem), err
}

// errNoAllocatable distinguishes unset resources from empty ones.
var errNoAllocatable = errors.New("content: MapGetter.SetNodeAllocatable was not called")

// GetNodeAllocatable implements [NodeGetter]. Unset resources are an error.
func (g *MapGetter) GetNodeAllocatable(ctx context.Context) (v1.ResourceList, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if g.allocatable == nil {
		return nil, errNoAllocatable
	}
	return g.allocatable.DeepCopy(), nil
}

func put[T any](g *MapGetter, all *map[string]T, key string, value T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if *all == nil {
		*all = map[string]T{}
	}
	(*all)[key] = value
}

func get[T any](ctx context.Context, g *MapGetter, all *map[string]T, kind, key string) (T, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	value, ok := (*all)[key]
	if err := context.Cause(ctx); err != nil {
		return value, err
	}
	if !ok {
		return value, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, brief.Text(key))
	}
	return value, nil
}
