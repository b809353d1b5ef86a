package expand

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/settings"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Cluster has the clients that a [Controller] uses. An [api.Cluster] is one.
type Cluster interface {
	api.PersistentVolumeClaimsGetter
	api.PersistentVolumesGetter
}

// Config configures a [Controller]. Cluster and Expander are required; the zero value of every other
// field selects its default. Functions are called concurrently and must not block.
type Config struct {
	Cluster  Cluster
	Expander Expander
	// ReportExternal sends the event ExternalExpanding for claims whose volumes the Expander does not
	// expand, as kube-controller-manager does.
	ReportExternal bool

	// Claims and Volumes are caches of the embedder, which runs them. Each must contain all objects of
	// its kind. Nil: the controller builds and runs one.
	Claims  *api.Cache[*v1.PersistentVolumeClaim]
	Volumes *api.Cache[*v1.PersistentVolume]

	// Workers is the number of claims that are handled at the same time, and so the most calls of the
	// Expander. 0: 16.
	Workers int
	// Timeout limits each call of the Expander; after it the outcome is open. 0: no limit.
	Timeout time.Duration
	// Backoff is the pause after the first failure of a claim; the pause doubles with each further
	// failure, up to MaxBackoff. 0: 500 ms and 5 minutes.
	Backoff, MaxBackoff time.Duration
	// RetryInfeasible is the pause before a size that the storage or the node can never have is tried
	// again. Another request ends the pause. 0: 5 minutes.
	RetryInfeasible time.Duration

	// Events receives events about claims, also RequestDenied if the API server denies a request. Nil: discarded.
	Events func(api.Event)
	// Metrics receives manager.OperationDuration with the operation "expand_volume". Nil: discarded.
	Metrics manager.Metrics
	// Logger receives failures. Nil: discarded.
	Logger *slog.Logger
}

const (
	defaultWorkers         = 16
	defaultRetryInfeasible = 5 * time.Minute
)

// check returns an error that wraps a *field.Error for an invalid configuration.
func (c *Config) check() error {
	at := field.NewPath("Config")
	switch {
	case c.Cluster == nil:
		return fmt.Errorf("expand: %w", field.Required(at.Child("Cluster"), "has the claims and the volumes"))
	case c.Expander == nil:
		return fmt.Errorf("expand: %w", field.Required(at.Child("Expander"), "makes the storage larger"))
	}
	return settings.NotNegative("expand",
		settings.Of("Workers", c.Workers), settings.Of("Timeout", c.Timeout), settings.Of("Backoff", c.Backoff),
		settings.Of("MaxBackoff", c.MaxBackoff), settings.Of("RetryInfeasible", c.RetryInfeasible),
	)
}

// setDefaults sets the fields that are zero.
func (c *Config) setDefaults() {
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.RetryInfeasible = cmp.Or(c.RetryInfeasible, defaultRetryInfeasible)
	settings.SetReceivers(&c.Events, &c.Metrics, &c.Logger)
}
