package sidecar

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/csi/internal/connection"
	"github.com/volumekit/volumekit/csi/registration"
	"github.com/volumekit/volumekit/manager"
	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// A Cluster has the clients that [Run] uses. An [api.Cluster] is one.
type Cluster interface {
	api.PersistentVolumeClaimsGetter
	api.PersistentVolumesGetter
	api.StorageClassesGetter
	api.VolumeAttributesClassesGetter
	api.VolumeAttachmentsGetter
	api.PodsGetter
	api.NodesGetter
	api.CSINodesGetter
	api.CSIStorageCapacitiesGetter
	api.SecretsGetter
}

// Config configures [Run]. Cluster is required, and Endpoint or Conn; the zero value of every other field
// selects its default. Functions are called concurrently and must not block.
type Config struct {
	// Endpoint is the absolute path of the driver's socket.
	Endpoint string
	// Conn is a connection to a driver in the same process, which has no socket. Nil: the driver is at
	// Endpoint.
	Conn    grpc.ClientConnInterface
	Cluster Cluster

	// WithoutProvisioner, WithoutAttacher, WithoutExpander and WithoutModifier leave out a companion that the
	// driver's capabilities allow: another program has its work.
	WithoutProvisioner, WithoutAttacher, WithoutExpander, WithoutModifier bool
	// MarkAttached also runs the attacher for a driver that does not declare PUBLISH_UNPUBLISH_VOLUME: it
	// marks each VolumeAttachment as attached. Such a driver does not need it if its CSIDriver object has
	// attachRequired false.
	MarkAttached bool
	// ExtraModifyMetadata passes the names of claim and volume to the driver, among the parameters of
	// ControllerModifyVolume.
	ExtraModifyMetadata bool
	// Provision are the choices for new volumes. VolumeNamePrefix and VolumeNameUUIDLength must be those of
	// earlier runs while claims wait for volumes.
	Provision ProvisionConfig
	// Capacity keeps CSIStorageCapacity objects up to date, for a driver that declares GET_CAPACITY. Nil:
	// not.
	Capacity *CapacityConfig
	// Registration registers the driver with the node's agent, also while the driver is not ready. Nil:
	// not.
	Registration *registration.ServerConfig
	// Leader restricts the companions to the time in which this process leads: replicas of a program run one at a
	// time. The registration does not depend on it. Nil: the companions run at once.
	Leader Leader

	// Claims, Volumes, Classes, Attachments, CSINodes and Nodes are caches of the embedder, which runs them.
	// Each must contain all objects of its kind. Nil: Run builds and runs one if a companion needs it.
	Claims      *api.Cache[*v1.PersistentVolumeClaim]
	Volumes     *api.Cache[*v1.PersistentVolume]
	Classes     *api.Cache[*storagev1.StorageClass]
	Attachments *api.Cache[*storagev1.VolumeAttachment]
	CSINodes    *api.Cache[*storagev1.CSINode]
	Nodes       *api.Cache[*v1.Node]

	// Workers is the most calls of each companion at the same time. Half of them may wait for calls for one volume.
	// 0: 100.
	Workers int
	// Timeout is the longest duration of a call of the driver. 0: 2 minutes.
	Timeout time.Duration
	// ExpandTimeout and ModifyTimeout are the longest durations of ControllerExpandVolume and ControllerModifyVolume.
	// 0: Timeout.
	ExpandTimeout, ModifyTimeout time.Duration
	// ListEvery is the period in which the attacher lists the volumes of the driver, to find attachments that were lost. It
	// lists only those of a driver that declares LIST_VOLUMES and LIST_VOLUMES_PUBLISHED_NODES. 0: 1 minute.
	ListEvery time.Duration
	// Backoff is the pause after the first failure of an object; the pause doubles with each further
	// failure, up to MaxBackoff. 0: 500 ms and 5 minutes.
	Backoff, MaxBackoff time.Duration
	// Resync is the period at which the caches deliver all objects again. 0: never.
	Resync time.Duration

	// Events receives events about claims, volumes and VolumeAttachments. Nil: discarded.
	Events func(api.Event)
	// Metrics receives CallDuration, and the metrics of packages provision, attachment, expand and modify. Nil:
	// discarded.
	Metrics manager.Metrics
	// Logger receives failures. Nil: discarded.
	Logger *slog.Logger
}

// readTime is the time for the reads from the API server that belong to a call of the driver.
const readTime = time.Minute

// stepTimeout is the longest duration of a call of an adapter whose calls of the driver have a timeout of their own, or
// Timeout for 0.
func (c *Config) stepTimeout(own time.Duration) time.Duration {
	return cmp.Or(own, c.Timeout, connection.Timeout) + readTime
}

// maxWaiting is the most calls that wait for one volume: a driver that hangs for it leaves workers for others.
func (c *Config) maxWaiting() int { return max(1, c.Workers/2) }

const (
	defaultWorkers = 100
	defaultPrefix  = "pvc"
	uuidDigits     = 32
)

// check returns an error that wraps a *field.Error for an invalid configuration.
func (c *Config) check() error {
	at := field.NewPath("Config")
	switch {
	case c.Cluster == nil:
		return fmt.Errorf("sidecar: %w", field.Required(at.Child("Cluster"), "has the claims and the volumes"))
	case c.Capacity != nil && c.Capacity.Namespace == "":
		return fmt.Errorf("sidecar: %w", field.Required(at.Child("Capacity", "Namespace"), "of the objects"))
	}
	durations := map[*field.Path]time.Duration{
		at.Child("Timeout"): c.Timeout, at.Child("Backoff"): c.Backoff, at.Child("MaxBackoff"): c.MaxBackoff, at.Child("Resync"): c.Resync,
		at.Child("ExpandTimeout"): c.ExpandTimeout, at.Child("ModifyTimeout"): c.ModifyTimeout, at.Child("ListEvery"): c.ListEvery,
	}
	if c.Capacity != nil {
		durations[at.Child("Capacity", "PollInterval")] = c.Capacity.PollInterval
	}
	for path, value := range durations {
		if value < 0 {
			return fmt.Errorf("sidecar: %w", field.Invalid(path, value.String(), "must be at least 0"))
		}
	}
	for path, value := range map[*field.Path]int{
		at.Child("Workers"): c.Workers, at.Child("Provision", "VolumeNameUUIDLength"): c.Provision.VolumeNameUUIDLength,
	} {
		if value < 0 {
			return fmt.Errorf("sidecar: %w", field.Invalid(path, value, "must be at least 0"))
		}
	}
	return c.Provision.check(at.Child("Provision"))
}

// check returns an error for a prefix that begins no name of an object.
func (c *ProvisionConfig) check(at *field.Path) error {
	if c.VolumeNameUUIDLength > uuidDigits {
		return fmt.Errorf("sidecar: %w", field.Invalid(at.Child("VolumeNameUUIDLength"), c.VolumeNameUUIDLength, "must be at most 32"))
	}
	name := c.volumeName(&v1.PersistentVolumeClaim{})
	for _, wrong := range validation.NameIsDNSSubdomain(name+"0", false) {
		return fmt.Errorf("sidecar: %w", field.Invalid(at.Child("VolumeNamePrefix"), c.VolumeNamePrefix, wrong))
	}
	return nil
}

// volumeName returns the name of the volume of a claim.
func (c *ProvisionConfig) volumeName(claim *v1.PersistentVolumeClaim) string {
	uid := string(claim.UID)
	if c.VolumeNameUUIDLength > 0 {
		uid = strings.ReplaceAll(uid, "-", "")
		uid = uid[:min(len(uid), c.VolumeNameUUIDLength)]
	}
	return cmp.Or(c.VolumeNamePrefix, defaultPrefix) + "-" + uid
}

// setDefaults sets the fields that are zero.
func (c *Config) setDefaults() {
	c.Workers = cmp.Or(c.Workers, defaultWorkers)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
}

// A Leader runs work while this process leads. A *service.Leadership of module controllers is one.
type Leader interface {
	// Lead calls work whenever this process becomes the leader, and ends the context of work when the process no
	// longer leads. It makes no second call before the first one has returned. It returns the error of work, an
	// error of the election, or nil after ctx ends, in each case after work has returned.
	Lead(ctx context.Context, work func(context.Context) error) error
}
