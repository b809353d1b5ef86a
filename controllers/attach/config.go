package attach

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/settings"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Cluster has the clients that a [Controller] uses. An [api.Cluster] is one.
type Cluster interface {
	api.PodsGetter
	api.PersistentVolumeClaimsGetter
	api.PersistentVolumesGetter
	api.NodesGetter
	api.VolumeAttachmentsGetter
	api.CSIDriversGetter
	api.CSINodesGetter
}

// Caches are caches of the embedder, which runs them. Each must contain all objects of its kind, and begin
// with a consistent list. Nil: the controller builds and runs one.
type Caches struct {
	Pods        *api.Cache[*v1.Pod]
	Claims      *api.Cache[*v1.PersistentVolumeClaim]
	Volumes     *api.Cache[*v1.PersistentVolume]
	Nodes       *api.Cache[*v1.Node]
	Attachments *api.Cache[*storagev1.VolumeAttachment]
	Drivers     *api.Cache[*storagev1.CSIDriver]
	CSINodes    *api.Cache[*storagev1.CSINode]
}

// Config configures a [Controller]. Cluster is required; the zero value of every other field selects its
// default. Functions are called concurrently and must not block.
type Config struct {
	Cluster Cluster
	Caches  Caches

	// Plugins attach the volumes of those plugins that are a volume.AttachableVolumePlugin. They are
	// registered before New. Nil: only CSI volumes are attached. CSI volumes are always attached by
	// VolumeAttachment objects, also if a plugin supports them.
	Plugins *volume.VolumePluginMgr

	// UnhealthyAfter is the time without the condition Ready after which a node counts as dead, so that
	// its volumes are detached without its report. 0: 6 minutes.
	UnhealthyAfter time.Duration

	// Workers is the number of volumes that are handled at the same time. The calls for the
	// nodes of one volume are concurrent, without a limit, so that no node waits for a slow one: a plugin
	// limits the calls if its storage requires it. 0: 32.
	Workers int
	// Timeout limits each call of a plugin, to at most 55 minutes; after it the outcome is uncertain. 0: 2 minutes.
	Timeout time.Duration
	// Backoff is the pause after the first failure of an attach or a detach; the pause doubles with each
	// further failure, up to MaxBackoff. 0: 500 ms and 5 minutes.
	Backoff, MaxBackoff time.Duration

	// Events receives events about pods and volumes. Nil: discarded.
	Events func(api.Event)
	// Metrics receives ForcedDetaches and manager.OperationDuration. Nil: discarded.
	Metrics manager.Metrics
	// Logger receives failures. Nil: discarded.
	Logger *slog.Logger
}

const (
	defaultUnhealthyAfter = 6 * time.Minute
	defaultWorkers        = 32
	defaultTimeout        = 2 * time.Minute
	defaultBackoff        = 500 * time.Millisecond
	defaultMaxBackoff     = 5 * time.Minute
)

// check returns an error that wraps a *field.Error for an invalid configuration.
func (c *Config) check() error {
	at := field.NewPath("Config")
	if c.Cluster == nil {
		return fmt.Errorf("attach: %w", field.Required(at.Child("Cluster"), "has the nodes and the volumes"))
	}
	if c.Timeout > mostTimeout {
		return fmt.Errorf("attach: %w", field.Invalid(at.Child("Timeout"), c.Timeout.String(), fmt.Sprint("must be at most ", mostTimeout)))
	}
	return settings.NotNegative("attach",
		settings.Of("UnhealthyAfter", c.UnhealthyAfter), settings.Of("Workers", c.Workers), settings.Of("Timeout", c.Timeout),
		settings.Of("Backoff", c.Backoff), settings.Of("MaxBackoff", c.MaxBackoff),
	)
}

// setDefaults sets the fields that are zero.
func (c *Config) setDefaults() {
	c.UnhealthyAfter = cmp.Or(c.UnhealthyAfter, defaultUnhealthyAfter)
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.Timeout = cmp.Or(c.Timeout, defaultTimeout)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	c.MaxBackoff = max(c.Backoff, cmp.Or(c.MaxBackoff, defaultMaxBackoff))
	settings.SetReceivers(&c.Events, &c.Metrics, &c.Logger)
}
