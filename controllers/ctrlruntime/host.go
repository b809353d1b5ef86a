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
	"k8s.io/apimachinery/pkg/util/validation/field"
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

	mgr    manager.Manager
	checks map[string]bool // the names of checks
}

// New returns a host of controllers in a manager. component is the source of their events. New makes informers of
// claims, volumes and classes, or of claims alone for a manager of some namespaces; of a manager that has started it waits
// until they have synced, or ctx ends.
func New(ctx context.Context, mgr manager.Manager, component string) (*Host, error) {
	h := &Host{
		Events: kubeclient.Events(mgr.GetEventRecorderFor(component)),
		Logger: slog.New(logr.ToSlogHandler(mgr.GetLogger())),
		mgr:    mgr,
		checks: map[string]bool{},
	}
	clientset, err := newClientset(mgr)
	if err != nil {
		return nil, fmt.Errorf("ctrlruntime: %w", err)
	}
	h.Cluster = kubeclient.New(clientset)
	if h.Metrics, err = newCollector(); err != nil {
		return nil, fmt.Errorf("ctrlruntime: %w", err)
	}
	h.Claims, err = CacheOf[*v1.PersistentVolumeClaim](ctx, mgr)
	if errors.Is(err, ErrNamespaces) {
		return h, nil
	}
	if err == nil {
		h.Volumes, err = CacheOf[*v1.PersistentVolume](ctx, mgr)
	}
	if err == nil {
		h.Classes, err = CacheOf[*storagev1.StorageClass](ctx, mgr)
	}
	if err != nil {
		return nil, err
	}
	return h, nil
}

// synced reports whether the host's caches have synced.
func (h *Host) synced() bool {
	return h.Claims == nil || h.Claims.HasSynced() && h.Volumes.HasSynced() && h.Classes.HasSynced()
}

// newClientset returns a clientset with the connections of a manager.
func newClientset(mgr manager.Manager) (*kubernetes.Clientset, error) {
	config := rest.CopyConfig(mgr.GetConfig())
	config.QPS, config.RateLimiter = -1, nil
	return kubernetes.NewForConfigAndClient(config, mgr.GetHTTPClient())
}

// collectors has the collector of the process, which all hosts share, as their managers share the registry. A collector
// has no description by which the registry could find it.
var collectors struct {
	mu     sync.Mutex
	shared *metrics.Collector
}

func newCollector() (*metrics.Collector, error) {
	collectors.mu.Lock()
	defer collectors.mu.Unlock()
	if collectors.shared != nil {
		return collectors.shared, nil
	}
	collector, err := metrics.NewCollector(metrics.Config{})
	if err == nil {
		err = ctrlmetrics.Registry.Register(collector)
	}
	if err != nil {
		return nil, err
	}
	collectors.shared = collector
	return collector, nil
}

// ErrNamespaces is wrapped by the error of CacheOf for a manager whose cache is that of some namespaces.
var ErrNamespaces = errors.New("the manager's cache is not of all namespaces")

// CacheOf returns the cache of a kind by the manager's informer, which the manager runs and ends. It returns an error for a kind that the manager's scheme or the API server does not have, and one
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

// Add adds a controller to the manager: it runs while the manager leads. The manager is ready once the caches of the
// controller have synced; without the lead, once those of the host have, as a controller opens others when it runs. So a
// replica that waits for the lead does not delay the end of the one that has it. name is that of the check, and one name
// for each controller of a manager: the manager replaces an earlier check of the name, and Add refuses one of this host.
// Add returns the error of the manager, such as for one whose endpoint of health has started. It is not safe for
// concurrent use.
func (h *Host) Add(name string, controller Controller) error {
	if h.checks[name] {
		return fmt.Errorf("ctrlruntime: %w", field.Duplicate(field.NewPath("name"), name))
	}
	isReady := func(*http.Request) error {
		synced := h.synced()
		select {
		case <-h.mgr.Elected():
			synced = controller.Synced()
		default:
		}
		if !synced {
			return errors.New("the caches have not synced")
		}
		return nil
	}
	if err := h.mgr.AddReadyzCheck(name, isReady); err != nil {
		return fmt.Errorf("ctrlruntime: %w", err)
	}
	if err := h.mgr.Add(leading{controller}); err != nil {
		return fmt.Errorf("ctrlruntime: %w", err)
	}
	h.checks[name] = true
	return nil
}

// leading is a controller that runs while its manager leads.
type leading struct{ Controller }

// Start runs the controller.
func (l leading) Start(ctx context.Context) error { return l.Run(ctx) }

// NeedLeaderElection makes the manager wait for the lead.
func (leading) NeedLeaderElection() bool { return true }
