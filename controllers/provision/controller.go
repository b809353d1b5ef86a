package provision

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/volumekit/volumekit/controllers/api"
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

	claims      *api.Objects[*v1.PersistentVolumeClaim]
	volumes     *api.Objects[*v1.PersistentVolume]
	classes     *api.Cache[*storagev1.StorageClass]
	caches      []runnable // those of the controller
	claimPool   *workers.Pool[claimKey]
	volumePool  *workers.Pool[api.Key]
	ran         atomic.Bool
	ofClaims    claimAttempts
	ofVolumes   volumeAttempts
	unsubscribe []func()
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

type runnable interface{ Run(context.Context) error }

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

// openCaches sets the caches: those of the embedder, or new ones. Their first lists are consistent:
// the controller must not act on claims of before an earlier run.
func (c *Controller) openCaches() {
	config := api.CacheConfig{Consistent: true, Resync: c.config.Resync, Logger: c.config.Logger}
	claims, volumes := c.config.Claims, c.config.Volumes
	c.classes = c.config.Classes
	if claims == nil {
		claims = api.NewCache(c.config.Cluster.PersistentVolumeClaims(""), config)
		c.caches = append(c.caches, claims)
	}
	if volumes == nil {
		volumes = api.NewCache(c.config.Cluster.PersistentVolumes(), config)
		c.caches = append(c.caches, volumes)
	}
	if c.classes == nil {
		c.classes = api.NewCache(c.config.Cluster.StorageClasses(), config)
		c.caches = append(c.caches, c.classes)
	}
	c.claims = api.NewObjects(c.config.Cluster.PersistentVolumeClaims, claims)
	c.volumes = api.NewObjects(api.ClusterScoped(c.config.Cluster.PersistentVolumes()), volumes)
	c.caches = append(c.caches, c.claims, c.volumes)
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
	if c.ran.Swap(true) {
		return errors.New("provision: a controller runs once")
	}
	caller := ctx
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	failures := make(chan error, len(c.caches)+2)
	err := c.start(ctx, func(r runnable) {
		running.Go(func() {
			if err := r.Run(ctx); err != nil {
				failures <- err
				cancel()
			}
		})
	})
	if err == nil {
		<-ctx.Done()
	}
	cancel()
	c.stopSubscriptions()
	running.Wait()
	close(failures)
	for failure := range failures {
		err = errors.Join(err, failure)
	}
	if err == nil || caller.Err() != nil {
		return nil
	}
	return fmt.Errorf("provision: %w", err)
}

// start starts the caches and, once these have synced, the workers.
func (c *Controller) start(ctx context.Context, run func(runnable)) error {
	for _, cache := range c.caches {
		run(cache)
	}
	for _, wait := range []func(context.Context) error{c.claims.Cache().WaitForSync, c.volumes.Cache().WaitForSync, c.classes.WaitForSync} {
		if err := wait(ctx); err != nil {
			return err
		}
	}
	if err := c.subscribe(); err != nil {
		return err
	}
	run(c.claimPool)
	run(c.volumePool)
	return nil
}
