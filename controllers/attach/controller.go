package attach

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/caches"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/util/keylock"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// A Controller attaches volumes to nodes and detaches them. It acts only during Run.
type Controller struct {
	config Config
	run    string // names this Controller in holders

	pods        *api.Cache[*v1.Pod]
	claims      *api.Cache[*v1.PersistentVolumeClaim]
	drivers     *api.Cache[*storagev1.CSIDriver]
	csiNodes    *api.Cache[*storagev1.CSINode]
	volumes     *api.Objects[*v1.PersistentVolume]
	nodes       *api.Objects[*v1.Node]
	attachments *api.Objects[*storagev1.VolumeAttachment]

	volumePool *workers.Pool[key]
	nodePool   *workers.Pool[string]

	records   nodeRecords
	reports   reports
	orphans   orphans
	plugged   pluggedStates
	lost      lostCalls
	failures  failures
	waiting   waitingRoom
	announced announcements
	timers    timers
	// rooms lock nodes with a limit while a volume is attached to them.
	rooms keylock.Map

	caches *caches.Set
}

// New returns a controller. The error for an invalid configuration wraps a *field.Error. New fails if a
// cache of the embedder has ended.
func New(config Config) (*Controller, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.setDefaults()
	c := &Controller{config: config, run: rand.Text()}
	c.openCaches()
	if err := errors.Join(c.addIndexes(), c.openPools()); err != nil {
		return nil, fmt.Errorf("attach: %w", err)
	}
	return c, nil
}

// openCaches opens and follows the caches.
func (c *Controller) openCaches() {
	cluster, given := c.config.Cluster, c.config.Caches
	c.caches = caches.New("attach", 0, c.config.Logger)
	c.pods = caches.Open(c.caches, given.Pods, cluster.Pods(""))
	c.claims = caches.Open(c.caches, given.Claims, cluster.PersistentVolumeClaims(""))
	c.drivers = caches.Open(c.caches, given.Drivers, cluster.CSIDrivers())
	c.csiNodes = caches.Open(c.caches, given.CSINodes, cluster.CSINodes())
	c.volumes = caches.OpenObjects(c.caches, given.Volumes, api.ClusterScoped(cluster.PersistentVolumes()))
	c.nodes = caches.OpenObjects(c.caches, given.Nodes, api.ClusterScoped(cluster.Nodes()))
	c.attachments = caches.OpenObjects(c.caches, given.Attachments, api.ClusterScoped(cluster.VolumeAttachments()))

	caches.Follow(c.caches, c.nodes.Cache(), c.nodeChanged)
	caches.Follow(c.caches, c.attachments.Cache(), c.attachmentChanged)
	caches.Follow(c.caches, c.volumes.Cache(), c.volumeChanged)
	caches.Follow(c.caches, c.claims, c.claimChanged)
	caches.Follow(c.caches, c.pods, c.podChanged)
	caches.Follow(c.caches, c.drivers, c.driverChanged)
	caches.Follow(c.caches, c.csiNodes, c.csiNodeChanged)
}

func (c *Controller) openPools() (err error) {
	c.volumePool, err = workers.New(workers.Config[key]{
		Name: "attachments of volumes", Handle: c.handle, Workers: c.config.Workers,
		Backoff: c.config.Backoff, MaxBackoff: c.config.MaxBackoff, Logger: c.config.Logger,
	})
	if err != nil {
		return err
	}
	c.nodePool, err = workers.New(workers.Config[string]{
		Name: "attached volumes of nodes", Handle: c.handleNode, Workers: min(nodeWriters, c.config.Workers),
		Backoff: c.config.Backoff, MaxBackoff: c.config.MaxBackoff, Logger: c.config.Logger,
	})
	return err
}

// nodeWriters is the number of nodes whose status is written at the same time. While all are at work, the changes of
// the other nodes gather, and each of these nodes needs one write for them.
const nodeWriters = 2

// Run works until ctx ends; then it returns nil, after all calls to the API server and of plugins have
// returned. A later run, with empty memory, continues the work. Run fails at once if a cache of the
// embedder has objects of another kind. A second call returns an error.
func (c *Controller) Run(ctx context.Context) error {
	return c.caches.Run(ctx, c.observeCaches, c.volumePool.Run, c.nodePool.Run)
}

// Synced reports whether the caches of the controller have listed their objects once, for checks of readiness: those
// that it opens list during Run, those of the embedder when the embedder runs them.
func (c *Controller) Synced() bool { return c.caches.Synced() }
