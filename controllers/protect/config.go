package protect

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
	api.PodsGetter
	api.PersistentVolumeClaimsGetter
	api.PersistentVolumesGetter
}

// Config configures a [Controller]. Cluster is required; the zero value of every other field selects
// its default. Functions are called concurrently and must not block.
type Config struct {
	Cluster Cluster

	// WithoutClaims, WithoutVolumes and WithoutEphemeral switch off the protection of claims, the
	// protection of volumes, and the claims of ephemeral volumes.
	WithoutClaims, WithoutVolumes, WithoutEphemeral bool
	// ReportUnused sets the [UnusedCondition] of bound claims, as Kubernetes 1.37 does. It costs a patch
	// each time that the first pod comes to a claim or the last one goes, and a list of pods for the
	// latter. API servers that do not know the condition drop it. It requires the protection of claims.
	ReportUnused bool

	// Pods, Claims and Volumes are caches of the embedder, which runs them. Each must contain all
	// objects of its kind. New adds an index to Pods and to Volumes. Nil: the controller builds and
	// runs one.
	Pods    *api.Cache[*v1.Pod]
	Claims  *api.Cache[*v1.PersistentVolumeClaim]
	Volumes *api.Cache[*v1.PersistentVolume]

	// Workers is the number of objects of one kind that are handled at the same time. At
	// least 64 claims are, since those that wait for a list do not load the API server. 0: 8.
	Workers int
	// Backoff is the pause after the first failure of an object; the pause doubles with each further
	// failure, up to MaxBackoff. 0: 500 ms and 5 minutes.
	Backoff, MaxBackoff time.Duration
	// Recheck is the pause before another list of pods for a claim in deletion that a pod outside of the
	// cache uses. 0: 10 seconds.
	Recheck time.Duration

	// Events receives events about pods whose claims are missing, and about claims and volumes for which a request
	// is denied (RequestDenied). Nil: discarded.
	Events func(api.Event)
	// Metrics receives the metrics whose names this package has. Nil: discarded.
	Metrics manager.Metrics
	// Logger receives failures. Nil: discarded.
	Logger *slog.Logger
}

const (
	defaultWorkers = 8
	defaultRecheck = 10 * time.Second
)

// check returns an error that wraps a *field.Error for an invalid configuration.
func (c *Config) check() error {
	at := field.NewPath("Config")
	switch {
	case c.Cluster == nil:
		return fmt.Errorf("protect: %w", field.Required(at.Child("Cluster"), "has the claims and the volumes"))
	case c.WithoutClaims && c.WithoutVolumes && c.WithoutEphemeral:
		return fmt.Errorf("protect: %w", field.Invalid(at.Child("WithoutEphemeral"), true, "leaves no work for the controller"))
	case c.ReportUnused && c.WithoutClaims:
		return fmt.Errorf("protect: %w", field.Invalid(at.Child("ReportUnused"), true, "requires the protection of claims"))
	}
	return settings.NotNegative("protect",
		settings.Of("Workers", c.Workers), settings.Of("Backoff", c.Backoff), settings.Of("MaxBackoff", c.MaxBackoff), settings.Of("Recheck", c.Recheck),
	)
}

// setDefaults sets the fields that are zero.
func (c *Config) setDefaults() {
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.Recheck = cmp.Or(c.Recheck, defaultRecheck)
	settings.SetReceivers(&c.Events, &c.Metrics, &c.Logger)
}
