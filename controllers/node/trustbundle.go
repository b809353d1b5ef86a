package node

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// A bundleKey selects ClusterTrustBundles by their name, or by their signer and labels.
type bundleKey struct{ name, signer, labels string }

// bundleKeyOf returns the key of the bundles that a volume selects. ok is false if the volume
// selects none: without a label selector, or with an invalid one.
func bundleKeyOf(source *v1.ClusterTrustBundleProjection) (key bundleKey, ok bool) {
	if source.Name != nil {
		return bundleKey{name: *source.Name}, true
	}
	if source.SignerName == nil || source.LabelSelector == nil {
		return key, false
	}
	selector, err := metav1.LabelSelectorAsSelector(source.LabelSelector)
	if err != nil {
		return key, false
	}
	return bundleKey{signer: *source.SignerName, labels: selector.String()}, true
}

// String returns the key for errors.
func (k bundleKey) String() string {
	if k.name != "" {
		return fmt.Sprintf("clustertrustbundle %q", k.name)
	}
	return fmt.Sprintf("clustertrustbundles of %q with the labels %q", k.signer, k.labels)
}

// selectors returns the selectors of a list.
func (k bundleKey) selectors() (config api.CacheConfig) {
	if k.name != "" {
		return api.CacheConfig{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, k.name).String()}
	}
	return api.CacheConfig{FieldSelector: fields.OneTermEqualSelector("spec.signerName", k.signer).String(), LabelSelector: k.labels}
}

// watchedBundles are the bundles of a key, and the pods that use them. Source.mu guards users and
// missed.
type watchedBundles struct {
	cache  *api.Cache[*certificatesv1alpha1.ClusterTrustBundle]
	first  *firstList
	users  map[types.UID]bool
	missed bool // a read has failed because there was no first list yet
	stop   func()
}

// GetTrustBundle implements content.TrustBundleGetter. It returns the certificates of bundles that
// volumes of present pods use, sorted, and each once. The first read waits for the first list, which
// fails on an API server without ClusterTrustBundles: then only the volumes with a bundle fail.
// volume.IsNotFound is true for the error if no bundle has the name, or the signer and the labels.
func (s *Source) GetTrustBundle(ctx context.Context, source *v1.ClusterTrustBundleProjection) ([]byte, error) {
	key, ok := bundleKeyOf(source)
	if !ok {
		return nil, notFoundBundle(key)
	}
	s.mu.Lock()
	watched := s.bundles[key]
	s.mu.Unlock()
	if watched == nil {
		if _, ok := s.config.Cluster.(api.ClusterTrustBundlesGetter); !ok {
			return nil, fmt.Errorf("%v: the cluster of the source has no client for them", key)
		}
		return nil, fmt.Errorf("%v: used by no pod of node %s", key, s.config.Node)
	}
	if err := watched.first.wait(ctx, watched.cache.HasSynced); err != nil {
		s.mu.Lock()
		watched.missed = true
		s.mu.Unlock()
		return nil, unread(key.String(), err)
	}
	bundles := watched.cache.List()
	if len(bundles) == 0 {
		return nil, notFoundBundle(key)
	}
	return certificatesOf(bundles), nil
}

func notFoundBundle(key bundleKey) error {
	name := key.name
	if name == "" {
		name = key.String()
	}
	return apierrors.NewNotFound(schema.GroupResource{Group: certificatesv1alpha1.GroupName, Resource: "clustertrustbundles"}, name)
}

// certificatesOf returns the certificates of bundles as PEM, sorted, and each once: an equal set of
// certificates has equal bytes.
func certificatesOf(bundles []*certificatesv1alpha1.ClusterTrustBundle) []byte {
	set := map[string]bool{}
	for _, bundle := range bundles {
		for rest := []byte(bundle.Spec.TrustBundle); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			set[string(block.Bytes)] = true
		}
	}
	var text bytes.Buffer
	for _, der := range slices.Sorted(maps.Keys(set)) {
		_ = pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: []byte(der)}) // a buffer returns no error
	}
	return text.Bytes()
}

// useBundles adds a pod to the users of bundles; the first user starts their watch. The caller
// holds mu.
func (s *Source) useBundles(key bundleKey, pod types.UID) {
	if watched := s.bundles[key]; watched != nil {
		watched.users[pod] = true
		return
	}
	getter, ok := s.config.Cluster.(api.ClusterTrustBundlesGetter)
	if !ok {
		return
	}
	watched := &watchedBundles{users: map[types.UID]bool{pod: true},
		first: &firstList{Reader: getter.ClusterTrustBundles(), ended: make(chan struct{})}}
	config := key.selectors()
	config.Logger = s.config.Logger
	watched.cache = api.NewCache(watched.first, config)
	s.bundles[key] = watched
	watched.stop = s.watches.add(func(ctx context.Context) {
		changed := func(change api.Change[*certificatesv1alpha1.ClusterTrustBundle]) {
			s.bundlesChanged(watched, change.Replay)
		}
		if _, end, err := watched.cache.Subscribe(changed); err == nil {
			defer end()
		}
		_ = watched.cache.Run(ctx)
	})
}

// dropBundles removes a pod from the users of bundles. Without a user their watch ends. The caller
// holds mu.
func (s *Source) dropBundles(key bundleKey, pod types.UID) {
	watched := s.bundles[key]
	if watched == nil {
		return
	}
	delete(watched.users, pod)
	if len(watched.users) == 0 {
		watched.stop()
		delete(s.bundles, key)
	}
}

// bundlesChanged reports changed bundles for the pods that use them. A replay is reported only if a
// read has failed before.
func (s *Source) bundlesChanged(watched *watchedBundles, replay bool) {
	s.mu.Lock()
	if replay && !watched.missed {
		s.mu.Unlock()
		return
	}
	watched.missed = false
	pods := slices.Collect(maps.Keys(watched.users))
	s.mu.Unlock()
	s.subscribers.reportContent(pods)
}

// A firstList is a reader that records the end of lists.
type firstList struct {
	api.Reader[*certificatesv1alpha1.ClusterTrustBundle, *certificatesv1alpha1.ClusterTrustBundleList]
	ended chan struct{} // closed when a list has ended

	mu  sync.Mutex
	err error // of the last list
}

// IsWatchListSemanticsUnSupported makes the cache list before it watches: a list has an error.
func (f *firstList) IsWatchListSemanticsUnSupported() bool { return true }

func (f *firstList) List(ctx context.Context, options metav1.ListOptions) (*certificatesv1alpha1.ClusterTrustBundleList, error) {
	list, err := f.Reader.List(ctx, options)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	select {
	case <-f.ended:
	default:
		close(f.ended)
	}
	return list, err
}

func (f *firstList) lastError() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// wait returns nil once the cache has synced, and otherwise the error of the last list, or the cause
// of ctx if ctx ends before a list does.
func (f *firstList) wait(ctx context.Context, synced func() bool) error {
	select {
	case <-f.ended:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	ticker := time.NewTicker(syncPoll)
	defer ticker.Stop()
	for !synced() {
		if err := f.lastError(); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
