package attachment

import (
	"cmp"
	"fmt"
	"log/slog"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/settings"
	"github.com/volumekit/volumekit/manager"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Cluster has the clients that a [Controller] uses. An [api.Cluster] is one.
type Cluster interface {
	api.VolumeAttachmentsGetter
	api.PersistentVolumesGetter
	api.CSINodesGetter
}

// Config configures a [Controller]. Cluster and Attacher are required; the zero value of every other field
// selects its default. Functions are called concurrently and must not block.
type Config struct {
	Cluster  Cluster
	Attacher Attacher
	// NoPublish is for a driver without the capability PUBLISH_UNPUBLISH_VOLUME: each VolumeAttachment is
	// attached at once, without a call of the Attacher and without finalizers.
	NoPublish bool

	// Attachments, Volumes and Nodes are caches of the embedder, which runs them. Each must contain all
	// objects of its kind. Nil: the controller builds and runs one.
	Attachments *api.Cache[*storagev1.VolumeAttachment]
	Volumes     *api.Cache[*v1.PersistentVolume]
	Nodes       *api.Cache[*storagev1.CSINode]

	// Workers is the number of VolumeAttachments that are handled at the same time, and so the most calls
	// of Attach and Detach. 0: 16.
	Workers int
	// Timeout limits each call of Attach and Detach. After it the outcome is unknown, unless the error wraps
	// volume.ErrTransient. 0: no limit.
	Timeout time.Duration
	// Backoff is the pause after the first failure of a VolumeAttachment; the pause doubles with each
	// further failure, up to MaxBackoff. 0: 500 ms and 5 minutes.
	Backoff, MaxBackoff time.Duration
	// ListEvery is the period of the calls of ListAttached, if the Attacher is a [Lister]. A call has the time
	// of ten periods. 0: 1 minute.
	ListEvery time.Duration

	// Events receives events about VolumeAttachments and PersistentVolumes. Nil: discarded.
	Events func(api.Event)
	// Metrics receives manager.OperationDuration with the operations "volume_attach", "volume_detach" and
	// "volume_list_attached". Nil: discarded.
	Metrics manager.Metrics
	// Logger receives failures. Nil: discarded.
	Logger *slog.Logger
}

const (
	defaultWorkers   = 16
	defaultListEvery = time.Minute
)

// check returns an error that wraps a *field.Error for an invalid configuration.
func (c *Config) check() error {
	at := field.NewPath("Config")
	switch {
	case c.Cluster == nil:
		return fmt.Errorf("attachment: %w", field.Required(at.Child("Cluster"), "has the VolumeAttachments"))
	case c.Attacher == nil:
		return fmt.Errorf("attachment: %w", field.Required(at.Child("Attacher"), "attaches the volumes"))
	case c.Attacher.Name() == "":
		return fmt.Errorf("attachment: %w", field.Required(at.Child("Attacher"), "Name must return the name of a driver"))
	}
	return settings.NotNegative("attachment",
		settings.Of("Workers", c.Workers), settings.Of("Timeout", c.Timeout), settings.Of("Backoff", c.Backoff),
		settings.Of("MaxBackoff", c.MaxBackoff), settings.Of("ListEvery", c.ListEvery),
	)
}

// setDefaults sets the fields that are zero.
func (c *Config) setDefaults() {
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.ListEvery = cmp.Or(c.ListEvery, defaultListEvery)
	settings.SetReceivers(&c.Events, &c.Metrics, &c.Logger)
}
