package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/internal/input"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CSIDriversConfig configures [CSIDrivers]. Cluster is required.
type CSIDriversConfig struct {
	Cluster api.CSIDriversGetter
	// Logger receives failed lists and watches, which are retried. Nil: discarded.
	Logger *slog.Logger
}

// CSIDrivers reads CSIDriver objects. It is a csi.DriverObjectGetter of module csi. It watches an
// object by its name from the first read on, so that later reads do not call the API server, and
// survive an outage. Its methods are safe for concurrent use.
type CSIDrivers struct {
	config  CSIDriversConfig
	watches *watchGroup

	mu      sync.Mutex // guards watched
	watched map[string]*api.ObjectWatch[*storagev1.CSIDriver]
}

// maxWatchedDrivers is the number of watched names. Pods name drivers of inline volumes, which need
// not exist.
const maxWatchedDrivers = 256

// NewCSIDrivers returns a reader of CSIDrivers. Reads need Run. The error for an invalid
// configuration wraps a *field.Error.
func NewCSIDrivers(config CSIDriversConfig) (*CSIDrivers, error) {
	if config.Cluster == nil {
		at := field.NewPath("CSIDriversConfig").Child("Cluster")
		return nil, fmt.Errorf("node: %w", field.Required(at, "CSIDrivers are read from a cluster"))
	}
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	return &CSIDrivers{
		config: config, watches: newWatchGroup(), watched: map[string]*api.ObjectWatch[*storagev1.CSIDriver]{},
	}, nil
}

// Run watches the objects that are read until ctx ends; then it returns nil, and all watches have
// ended. A second call returns an error.
func (d *CSIDrivers) Run(ctx context.Context) error {
	if !d.watches.begin() {
		return errors.New("node: CSIDrivers runs once")
	}
	d.watches.run(ctx)
	return nil
}

// GetCSIDriver returns the last known state of the object of a driver, which the caller does not
// change. The first read of a name waits for its first list, until ctx ends, and fails if the list
// fails. apierrors.IsNotFound is true for the error of a driver without an object, and for that of an
// invalid name; for no other one.
func (d *CSIDrivers) GetCSIDriver(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	notFound := apierrors.NewNotFound(storagev1.Resource("csidrivers"), name)
	if len(input.Problems(validation.IsDNS1123Subdomain, strings.ToLower(name))) > 0 {
		return nil, notFound
	}
	object, err := d.read(ctx, name)
	switch {
	case err != nil:
		return nil, unread(fmt.Sprintf("csidrivers %q", name), err)
	case object == nil:
		return nil, notFound
	}
	return object, nil
}

// read returns nil for an object that does not exist.
func (d *CSIDrivers) read(ctx context.Context, name string) (*storagev1.CSIDriver, error) {
	if w := d.watch(name); w != nil {
		return w.Get(ctx)
	}
	object, err := d.config.Cluster.CSIDrivers().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err) {
		return nil, nil
	}
	return object, err
}

// watch returns the watch of an object; the first call starts it. It returns nil if there are too
// many.
func (d *CSIDrivers) watch(name string) *api.ObjectWatch[*storagev1.CSIDriver] {
	d.mu.Lock()
	defer d.mu.Unlock()
	w := d.watched[name]
	if w != nil || len(d.watched) >= maxWatchedDrivers {
		return w
	}
	w = api.NewObjectWatch(d.config.Cluster.CSIDrivers(), api.ObjectWatchConfig[*storagev1.CSIDriver]{
		Key: api.Key{Name: name}, Logger: d.config.Logger,
	})
	d.watched[name] = w
	d.watches.add(func(ctx context.Context) { _ = w.Run(ctx) })
	return w
}
