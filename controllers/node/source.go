package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Cluster returns the clients that a [Source] needs. An api.Cluster is one. Volumes with a
// ClusterTrustBundle need a Cluster that is an api.ClusterTrustBundlesGetter, too.
type Cluster interface {
	api.PodsGetter
	api.PersistentVolumeClaimsGetter
	api.PersistentVolumesGetter
	api.ConfigMapsGetter
	api.SecretsGetter
	api.ServiceAccountsGetter
	api.NodesGetter
}

// Config configures a [Source]. Cluster and Node are required.
type Config struct {
	Cluster Cluster
	// Node is the name of this node: the source has the pods whose spec.nodeName it is.
	Node types.NodeName
	// Pods is a cache of the embedder that contains the pods of this node, such as one over a
	// shared informer. The embedder runs it; pods of other nodes in it are ignored. Its first list
	// should be consistent, see api.CacheConfig: pods that the list lacks lose their volumes. Nil:
	// the source has a cache of its own, whose first list is consistent.
	Pods *api.Cache[*v1.Pod]

	// HasContainers reports whether containers of a pod run, or may still be started. As long as
	// it returns true the pod keeps its volumes. It is called for finished and deleted pods, and for a UID
	// that is in the annotations of several mirror pods; call
	// Source.ContainersEnded when the result changes to false. It must neither block nor call the
	// source, nor wait for a lock that is held during a call of the source. Nil: finished and
	// deleted pods have no containers.
	//
	// The API server may delete a pod just before its containers start. Let HasContainers return
	// true first, then call Source.Pod, and start the containers only if it returns the pod.
	HasContainers func(pod types.UID) bool
	// LocalPods are the pods that the program has started in an earlier run, by its own records.
	// A local pod that is not in the first list, because it was deleted while the program was down,
	// is a deleted pod. LocalPods requires HasContainers, and a UID of each pod. A static pod has the annotation
	// kubernetes.io/config.mirror or kubernetes.io/config.source, which the kubelet adds; to another one no mirror
	// pod belongs.
	LocalPods []*v1.Pod
	// StaticPods is a directory of the source alone, in which it records which static pod has which UID: after a
	// restart no other mirror pod gets the UID. An absolute path without a slash at its end; Run creates it in an
	// existing parent, and fails if it cannot read it. Only this program may write to both. Empty: after a restart only LocalPods are known.
	StaticPods string

	// Logger receives failures of lists and watches, which are retried. Nil: discarded.
	Logger *slog.Logger
}

func (c *Config) check() error {
	at := field.NewPath("Config")
	switch {
	case c.Cluster == nil:
		return field.Required(at.Child("Cluster"), "a source reads from a cluster")
	case c.Node == "":
		return field.Required(at.Child("Node"), "a source has the pods of one node")
	case c.StaticPods != "" && (!filepath.IsAbs(c.StaticPods) || filepath.Clean(c.StaticPods) != c.StaticPods):
		return field.Invalid(at.Child("StaticPods"), brief.Name(c.StaticPods), "must be an absolute and clean path")
	case len(c.LocalPods) > 0 && c.HasContainers == nil:
		return field.Required(at.Child("HasContainers"), "LocalPods requires HasContainers")
	}
	for i, pod := range c.LocalPods {
		if pod == nil || pod.UID == "" {
			return field.Required(at.Child("LocalPods").Index(i).Child("metadata", "uid"), "a pod has a UID")
		}
	}
	if c.HasContainers == nil {
		c.HasContainers = func(types.UID) bool { return false }
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return nil
}

// A Source is the pods of one node on an API server, with the objects that their volumes use. It is
// a manager.IncrementalPodSource and a volume.ClaimReader: set it as Pods and Claims of
// manager.Config; and a getter of all content but pod certificates for package content. Its methods
// are safe for concurrent use. Callers do not change the returned objects.
type Source struct {
	config      Config
	subscribers subscribers
	tokens      tokens
	watches     *watchGroup   // of single objects
	ready       chan struct{} // closed when pods has all pods of the node

	// updating is held during a change of the pods, so that each is complete before the next one
	// begins. It is locked before mu.
	updating sync.Mutex
	// updating guards these:
	mirrors    map[types.UID]map[api.Key]mirrorPod // all mirror pods of the node, by the UID in their annotation
	known      map[types.UID]identity              // by LocalPods and the records, until the pods are listed
	isListed   bool
	nodeUID    types.UID // of the state of the node by which all mirror pods were decided last
	staticPods staticPodRecords

	// mu guards all below. It may be held during calls of Config.HasContainers, and is held during no
	// other call of the embedder.
	mu   sync.Mutex
	pods map[types.UID]*podState

	claims     objectSet[*v1.PersistentVolumeClaim]
	volumes    objectSet[*v1.PersistentVolume]
	configMaps objectSet[*v1.ConfigMap]
	secrets    objectSet[*v1.Secret]
	nodes      objectSet[*v1.Node] // this node, for the downward API and for followers
	followers  map[*nodeFollower]bool
	bundles    map[bundleKey]*watchedBundles
	volumeOf   map[api.Key]string          // the watched volume of a watched claim
	secretsOf  map[string]map[api.Key]bool // the watched Secrets of a watched volume
}

var (
	_ manager.IncrementalPodSource = (*Source)(nil)
	_ volume.ClaimReader           = (*Source)(nil)
)

// NewSource returns a source. Reads of its pods wait until Run has listed the pods. The error for
// an invalid configuration wraps a *field.Error.
func NewSource(config Config) (*Source, error) {
	if err := config.check(); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	s := &Source{
		config: config, watches: newWatchGroup(), ready: make(chan struct{}),
		pods: map[types.UID]*podState{}, mirrors: map[types.UID]map[api.Key]mirrorPod{}, known: map[types.UID]identity{}, volumeOf: map[api.Key]string{}, secretsOf: map[string]map[api.Key]bool{}, followers: map[*nodeFollower]bool{},
	}
	s.subscribers.poked = make(chan struct{}, 1)
	s.tokens = tokens{
		request: s.requestToken, isPresent: s.isPresent, kept: map[tokenKey]token{}, locks: &keylock.Map{}, logger: s.config.Logger,
	}
	s.makeSets()
	return s, nil
}

// Run follows the API server until ctx ends; then it returns nil, and all goroutines of the source
// have ended. The source keeps its last state, for a manager that stops later. Run fails if the
// informer of Config.Pods has ended, or has objects other than pods: then the source has no pods, and
// reads of them wait. A second call returns an error.
func (s *Source) Run(ctx context.Context) error {
	if !s.watches.begin() {
		return errors.New("node: a source runs once")
	}
	if err := s.readKnown(); err != nil {
		return fmt.Errorf("node: Config.StaticPods: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	pods, run := s.config.Pods, func(context.Context) error { return nil }
	if pods == nil {
		pods = api.NewCache(s.config.Cluster.Pods(""), api.CacheConfig{
			FieldSelector: fields.OneTermEqualSelector("spec.nodeName", string(s.config.Node)).String(),
			// A stale list could lack a pod whose volumes the last run of the program has set up.
			Consistent: true,
			Logger:     s.config.Logger,
		})
		run = pods.Run
	}
	var own sync.WaitGroup
	own.Go(func() { s.watches.run(ctx) })
	// Before the cache runs: with an ended ctx it could stop first, and a stopped cache has no subscribers.
	synced, stop, err := pods.Subscribe(s.updatePod)
	if err == nil {
		own.Go(func() { _ = run(ctx) })
		if err = s.waitForPods(ctx, pods, synced); err == nil {
			<-ctx.Done()
		}
		stop()
	}
	cancel()
	own.Wait()
	s.updating.Lock() // waits for a late change of a pod
	defer s.updating.Unlock()
	return err
}

// Format implements [fmt.Formatter]: with any verb it prints the type and the name of the node
// only.
func (s *Source) Format(f fmt.State, _ rune) { _, _ = fmt.Fprintf(f, "node.Source(%s)", s.config.Node) }

// MarshalJSON implements json.Marshaler: it returns the name of the type only.
func (s *Source) MarshalJSON() ([]byte, error) { return []byte(`"node.Source"`), nil }
