package provision

import (
	"context"
	"fmt"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/caches"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Controller provisions volumes for claims and deletes the storage of released volumes. It acts
// only during Run.
type Controller struct {
	config  Config
	rules   rules
	limiter *limiter
	users   *users
	// postponed are the claims whose finalizer is removed later.
	postponed postponed
	awaited   awaited

	claims     *api.Objects[*v1.PersistentVolumeClaim]
	volumes    *api.Objects[*v1.PersistentVolume]
	classes    *api.Cache[*storagev1.StorageClass]
	caches     *caches.Set
	claimPool  *workers.Pool[claimKey]
	volumePool *workers.Pool[api.Key]
	ofClaims   claimAttempts
	ofVolumes  volumeAttempts
}

// A claimKey names a claim. A claim that is deleted and created again with its name is another
// claim: the storage of the first one may need further calls.
type claimKey struct {
	api.Key
	uid types.UID
}

func keyOfClaim(claim *v1.PersistentVolumeClaim) claimKey {
	return claimKey{api.KeyOf(claim), claim.UID}
}

func keyOfReference(ref *v1.ObjectReference) claimKey {
	return claimKey{api.Key{Namespace: ref.Namespace, Name: ref.Name}, ref.UID}
}

const (
	// apiWorkers is the number of workers besides those that wait for calls of the Provisioner.
	apiWorkers = 8
	// leastReaders is the least number of volumes whose workers may wait for the lists of their users: a
	// list serves all that wait for it.
	leastReaders = 64
)

// New returns a controller. The error for an invalid configuration wraps a *field.Error.
func New(config Config) (*Controller, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	config.setDefaults()
	pauses := pauseRule{first: config.Backoff, most: config.MaxBackoff}
	c := &Controller{config: config, limiter: newLimiter(config.Calls), users: newUsers(config.Cluster, config.Provisioner)}
	c.rules = rules{
		names: config.names(), guardsClaims: !config.UnguardedClaims, guardsVolumes: !config.UnguardedVolumes,
		volumeFinalizer: config.VolumeFinalizer, isStatic: config.StaticVolumes,
		provisionPauses: pauses, deletePauses: pauses,
		markWait:   max(2*config.Timeout, leastMarkWait),
		infeasible: pauseRule{first: config.InfeasibleBackoff, most: config.InfeasibleBackoff},
	}
	c.rules.provisionPauses.threshold = config.ProvisionThreshold
	c.rules.infeasible.threshold = config.ProvisionThreshold
	c.rules.deletePauses.threshold = config.DeleteThreshold
	c.openCaches()
	return c, c.openPools()
}

// openCaches opens and follows the caches.
func (c *Controller) openCaches() {
	cluster := c.config.Cluster
	c.caches = caches.New("provision", c.config.Resync, c.config.Logger)
	c.claims = caches.OpenObjects(c.caches, c.config.Claims, cluster.PersistentVolumeClaims)
	c.volumes = caches.OpenObjects(c.caches, c.config.Volumes, api.ClusterScoped(cluster.PersistentVolumes()))
	c.classes = caches.Open(c.caches, c.config.Classes, cluster.StorageClasses())

	caches.Follow(c.caches, c.claims.Cache(), c.addClaim)
	caches.Follow(c.caches, c.volumes.Cache(), c.addVolume)
	caches.Follow(c.caches, c.classes, c.addClass)
}

func (c *Controller) openPools() (err error) {
	ofClaim := telemetry.Denied(c.claims.Cache(), c.config.Events)
	c.claimPool, err = workers.New(workers.Config[claimKey]{
		Name: c.config.Name + " claims", Handle: c.handleClaim, Denied: func(key claimKey, err error) { ofClaim(key.Key, err) }, Workers: c.config.Calls + apiWorkers,
		Backoff: c.config.Backoff, MaxBackoff: c.config.MaxBackoff, Logger: c.config.Logger,
	})
	if err != nil {
		return fmt.Errorf("provision: %w", err)
	}
	c.volumePool, err = workers.New(workers.Config[api.Key]{
		Name: c.config.Name + " volumes", Handle: c.handleVolume, Denied: telemetry.Denied(c.volumes.Cache(), c.config.Events), Workers: max(c.config.Calls, leastReaders) + apiWorkers,
		Backoff: c.config.Backoff, MaxBackoff: c.config.MaxBackoff, Logger: c.config.Logger,
	})
	if err != nil {
		return fmt.Errorf("provision: %w", err)
	}
	return nil
}

// Run provisions and deletes until ctx ends; then it returns nil, after all calls of the Provisioner
// have returned. A later run, with empty memory, continues the work. Run fails at once if a cache of
// the embedder has objects of another kind. A second call returns an error.
func (c *Controller) Run(ctx context.Context) error {
	return c.caches.Run(ctx, nil, c.claimPool.Run, c.volumePool.Run)
}

// Synced reports whether the caches of the controller have listed their objects once, for checks of readiness: those
// that it opens list during Run, those of the embedder when the embedder runs them.
func (c *Controller) Synced() bool { return c.caches.Synced() }
