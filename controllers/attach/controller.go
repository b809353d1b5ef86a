package attach

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/internal/tasks"
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

	caches []func(context.Context) error // those of the controller
	waits  []func(context.Context) error // for the first lists
	ran    atomic.Bool
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

// openCaches sets the caches: those of the embedder, or new ones. Their first lists are consistent: the
// controller must not act on a state of before an earlier run.
func (c *Controller) openCaches() {
	cluster, given := c.config.Cluster, c.config.Caches
	c.pods = open(c, given.Pods, cluster.Pods(""))
	c.claims = open(c, given.Claims, cluster.PersistentVolumeClaims(""))
	c.drivers = open(c, given.Drivers, cluster.CSIDrivers())
	c.csiNodes = open(c, given.CSINodes, cluster.CSINodes())
	c.volumes = api.NewObjects(api.ClusterScoped(cluster.PersistentVolumes()), open(c, given.Volumes, cluster.PersistentVolumes()))
	c.nodes = api.NewObjects(api.ClusterScoped(cluster.Nodes()), open(c, given.Nodes, cluster.Nodes()))
	c.attachments = api.NewObjects(api.ClusterScoped(cluster.VolumeAttachments()), open(c, given.Attachments, cluster.VolumeAttachments()))
	c.caches = append(c.caches, c.volumes.Run, c.nodes.Run, c.attachments.Run)
}

// open returns the cache of the embedder, or a new one that the controller runs.
func open[O api.Object, L api.List](c *Controller, given *api.Cache[O], reader api.Reader[O, L]) *api.Cache[O] {
	if given == nil {
		given = api.NewCache(reader, api.CacheConfig{Consistent: true, Logger: c.config.Logger})
		c.caches = append(c.caches, given.Run)
	}
	c.waits = append(c.waits, given.WaitForSync)
	return given
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
	if c.ran.Swap(true) {
		return errors.New("attach: a controller runs once")
	}
	err := tasks.RunAll(ctx, append(c.caches, c.work)...)
	if ctx.Err() != nil || err == nil {
		return nil
	}
	return fmt.Errorf("attach: %w", err)
}

// work waits for the caches and runs the pools.
func (c *Controller) work(ctx context.Context) error {
	for _, wait := range c.waits {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	stop, err := c.subscribe()
	defer stop()
	if err != nil {
		return err
	}
	return tasks.RunAll(ctx, c.volumePool.Run, c.nodePool.Run)
}
