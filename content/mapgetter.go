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
)

// A MapGetter has ConfigMaps and Secrets in memory, and what else is asked for: for tests,
// examples and programs that have no cluster. It is all getters of a [Config]. The zero
// value is empty. Methods are safe for concurrent use; objects are copied.
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

// Format implements [fmt.Formatter]: it shows nothing of what is in it.
func (g *MapGetter) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, "content.MapGetter") }

// MarshalJSON writes what Format does.
func (g *MapGetter) MarshalJSON() ([]byte, error) { return []byte(`"content.MapGetter"`), nil }

// Config returns a configuration with the getter in each place that it can fill. The
// mounter is missing.
func (g *MapGetter) Config() Config {
	return Config{ConfigMaps: g, Secrets: g, Tokens: g, TrustBundles: g, Node: g}
}

// SetConfigMap adds or replaces one.
func (g *MapGetter) SetConfigMap(object *v1.ConfigMap) {
	put(g, &g.configMaps, object.Namespace+"/"+object.Name, object.DeepCopy())
}

// DeleteConfigMap removes one, if it is there.
func (g *MapGetter) DeleteConfigMap(namespace, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.configMaps, namespace+"/"+name)
}

// SetSecret adds or replaces one. StringData is what the API makes of it.
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

// DeleteSecret removes one, if it is there.
func (g *MapGetter) DeleteSecret(namespace, name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.secrets, namespace+"/"+name)
}

// SetToken sets the token of a service account, for whichever audience.
func (g *MapGetter) SetToken(namespace, serviceAccount string, token []byte) {
	put(g, &g.tokens, namespace+"/"+serviceAccount, slices.Clone(token))
}

// SetTrustBundle sets the certificates that have a name, or a signer of that name.
func (g *MapGetter) SetTrustBundle(name string, pem []byte) {
	put(g, &g.bundles, name, slices.Clone(pem))
}

// SetNodeAllocatable sets what pods may use of the node. Until then a container's limit
// that is the node's is an error.
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

// GetServiceAccountToken implements [TokenGetter]. A pod without a service account has
// the one that is called default.
func (g *MapGetter) GetServiceAccountToken(ctx context.Context, pod *v1.Pod, _ *v1.ServiceAccountTokenProjection) ([]byte, error) {
	account := pod.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	token, err := get(ctx, g, &g.tokens, "serviceaccounts", pod.Namespace+"/"+account)
	return slices.Clone(token), err
}

// GetTrustBundle implements [TrustBundleGetter]. It looks at no labels.
func (g *MapGetter) GetTrustBundle(ctx context.Context, source *v1.ClusterTrustBundleProjection) ([]byte, error) {
	name := source.Name
	if name == nil {
		name = source.SignerName
	}
	pem, err := get(ctx, g, &g.bundles, "clustertrustbundles", *name)
	return slices.Clone(pem), err
}

// errNoAllocatable is not the answer that the node has nothing.
var errNoAllocatable = errors.New("content: nothing was told to MapGetter.SetNodeAllocatable")

// GetNodeAllocatable implements [NodeGetter]. It is an error if nothing has been set.
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
		return value, apierrors.NewNotFound(schema.GroupResource{Resource: kind}, key)
	}
	return value, nil
}
