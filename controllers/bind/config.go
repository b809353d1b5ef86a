package bind

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/settings"
	"github.com/volumekit/volumekit/controllers/provision"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Cluster has the clients that a [Controller] uses. An [api.Cluster] is one.
type Cluster interface{ provision.Cluster }

// Config configures a [Controller]. Cluster is required; the zero value of every other field selects its
// default. Functions are called concurrently and must not block.
type Config struct {
	Cluster Cluster
	// Plugins are the volume plugins of this program. They provision volumes for the classes whose
	// provisioner is a plugin's name, delete the storage of these volumes and of static volumes, and
	// recycle. Plugins that are registered after New recycle, and do not provision or delete. Nil:
	// none, so that other programs provision and delete all volumes.
	Plugins *volume.VolumePluginMgr

	// Claims, Volumes and Classes are caches of the embedder, which runs them. Each must contain all
	// objects of its kind. Nil: the controller builds and runs one.
	Claims  *api.Cache[*v1.PersistentVolumeClaim]
	Volumes *api.Cache[*v1.PersistentVolume]
	Classes *api.Cache[*storagev1.StorageClass]
	// Pods is a cache of the embedder with all pods, which the embedder runs, and to which New adds an index. With it,
	// the event of a claim that waits for its first consumer is WaitForPodScheduled while pods without a node use
	// the claim. Nil: the controller reads no pods, and the event is always WaitForFirstConsumer.
	Pods *api.Cache[*v1.Pod]
	// Resync is the period at which the caches of the controller deliver all objects again. 0: never.
	Resync time.Duration

	// Workers is the number of claims, and of volumes, that cost calls of the API server at the same
	// time. 0: 32.
	Workers int
	// Calls is the number of calls of a plugin at the same time. 0: 16.
	Calls int
	// Timeout limits each call of a plugin. 0: no limit.
	Timeout time.Duration
	// Backoff is the pause after the first failure of a claim or a volume; the pause doubles with
	// each further failure, up to MaxBackoff. 0: 500 ms and 5 minutes.
	Backoff, MaxBackoff time.Duration

	// Events receives events about claims and volumes, each text once in a row for an object. Nil:
	// discarded.
	Events func(api.Event)
	// Metrics receives the counters whose names this package has, and those of package provision for
	// the plugins. Nil: discarded.
	Metrics manager.Metrics
	// Logger receives failures. Nil: discarded.
	Logger *slog.Logger
}

const (
	defaultWorkers    = 32
	defaultCalls      = 16
	defaultBackoff    = 500 * time.Millisecond
	defaultMaxBackoff = 5 * time.Minute
)

// check returns an error that wraps a *field.Error for an invalid configuration.
func (c *Config) check() error {
	at := field.NewPath("Config")
	if c.Cluster == nil {
		return fmt.Errorf("bind: %w", field.Required(at.Child("Cluster"), "has the claims and the volumes"))
	}
	return settings.NotNegative("bind",
		settings.Of("Workers", c.Workers), settings.Of("Calls", c.Calls), settings.Of("Resync", c.Resync), settings.Of("Timeout", c.Timeout),
		settings.Of("Backoff", c.Backoff), settings.Of("MaxBackoff", c.MaxBackoff),
	)
}

// setDefaults sets the fields that are zero.
func (c *Config) setDefaults() {
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.Calls = cmp.Or(c.Calls, defaultCalls)
	c.Backoff = cmp.Or(c.Backoff, defaultBackoff)
	c.MaxBackoff = max(c.Backoff, cmp.Or(c.MaxBackoff, defaultMaxBackoff))
	settings.SetReceivers(&c.Events, &c.Metrics, &c.Logger)
}
