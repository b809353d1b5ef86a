package ctrlruntime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/go-logr/logr"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/kubeclient"
	"github.com/volumekit/volumekit/controllers/metrics"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
)

// A Controller is a controller of this library, such as a *provision.Controller.
type Controller interface {
	Run(ctx context.Context) error
	Synced() bool
}

// A Host has what a manager provides for the configurations of controllers.
type Host struct {
	// Cluster has clients of the manager's HTTP client, without a limit of calls: the API server limits its
	// clients by itself, and the default of a manager is too few for a provisioner.
	Cluster api.Cluster
	// Claims, Volumes and Classes are the manager's caches; [CacheOf] returns those of other kinds. They are nil for a
	// manager whose cache is that of some namespaces: then controllers open caches of their own.
	Claims  *api.Cache[*v1.PersistentVolumeClaim]
	Volumes *api.Cache[*v1.PersistentVolume]
	Classes *api.Cache[*storagev1.StorageClass]
	// Events passes events to the manager's recorder.
	Events func(api.Event)
	// Metrics are served at the manager's endpoint. The hosts of a process share them.
	Metrics *metrics.Collector
	// Logger logs by the manager's logger.
	Logger *slog.Logger

	mgr manager.Manager
}

// New returns a host of controllers in a manager. component is the source of their events. New makes informers of
// claims, volumes and classes; of a manager that has started it waits until they have synced, or ctx ends.
func New(ctx context.Context, mgr manager.Manager, component string) (*Host, error) {
	h := &Host{
		Events: kubeclient.Events(mgr.GetEventRecorderFor(component)),
		Logger: slog.New(logr.ToSlogHandler(mgr.GetLogger())),
		mgr:    mgr,
	}
	clientset, err := newClientset(mgr)
	if err != nil {
		return nil, fmt.Errorf("ctrlruntime: %w", err)
	}
	h.Cluster = kubeclient.New(clientset)
	if h.Metrics, err = newCollector(); err != nil {
		return nil, fmt.Errorf("ctrlruntime: %w", err)
	}
	var failed [3]error
	h.Claims, failed[0] = CacheOf[*v1.PersistentVolumeClaim](ctx, mgr)
	h.Volumes, failed[1] = CacheOf[*v1.PersistentVolume](ctx, mgr)
	h.Classes, failed[2] = CacheOf[*storagev1.StorageClass](ctx, mgr)
	for _, err := range failed {
		if err != nil && !errors.Is(err, ErrNamespaces) {
			return nil, err
		}
	}
	return h, nil
}

// newClientset returns a clientset with the connections of a manager.
func newClientset(mgr manager.Manager) (*kubernetes.Clientset, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS, config.RateLimiter = -1, nil
	return kubernetes.NewForConfigAndClient(config, mgr.GetHTTPClient())
}

// newCollector returns the collector of the process, which all hosts share, as their managers share the registry.
var newCollector = sync.OnceValues(func() (*metrics.Collector, error) {
	collector, err := metrics.NewCollector(metrics.Config{})
	if err != nil {
		return nil, err
	}
	return collector, ctrlmetrics.Registry.Register(collector)
})

// ErrNamespaces is wrapped by the error of CacheOf for a manager whose cache is that of some namespaces.
var ErrNamespaces = errors.New("the manager's cache is not of all namespaces")

// CacheOf returns the cache of a kind by the manager's informer, which the manager runs. Its Run and WaitForSync end
// with the manager. It returns an error for a kind that the manager's scheme or the API server does not have, and one
// that wraps [ErrNamespaces].
func CacheOf[O client.Object](ctx context.Context, mgr manager.Manager) (*api.Cache[O], error) {
	object := newOf[O]()
	informer, err := mgr.GetCache().GetInformer(ctx, object)
	if err != nil {
		return nil, fmt.Errorf("ctrlruntime: informer of %T: %w", object, err)
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, fmt.Errorf("ctrlruntime: informer of %T: a %T: %w", object, informer, ErrNamespaces)
	}
	return api.CacheOf[O](shared, slog.New(logr.ToSlogHandler(mgr.GetLogger()))), nil
}

// Add adds a controller to the manager: it runs while the manager leads, and the manager is ready, with and without
// the lead, once the caches of the controller have synced. Caches that the controller has opened itself sync only
// while it leads. name is that of the check. Add returns the error of the manager, such as for one whose endpoint of
// health has started.
func (h *Host) Add(name string, controller Controller) error {
	isReady := func(*http.Request) error {
		if !controller.Synced() {
			return errors.New("the caches have not synced")
		}
		return nil
	}
	if err := h.mgr.AddReadyzCheck(name, isReady); err != nil {
		return fmt.Errorf("ctrlruntime: %w", err)
	}
	return h.mgr.Add(leading{controller})
}

// leading is a controller that runs while its manager leads.
type leading struct{ Controller }

// Start runs the controller.
func (l leading) Start(ctx context.Context) error { return l.Run(ctx) }

// NeedLeaderElection makes the manager wait for the lead.
func (leading) NeedLeaderElection() bool { return true }
