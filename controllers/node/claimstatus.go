package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/workers"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/util/quantity"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ClaimStatusConfig configures a [ClaimStatus]. Source is required.
type ClaimStatusConfig struct {
	// Source is the source of the manager. Its cluster receives the writes.
	Source *Source
	// Events receives events about claims: each success, and each failure that differs from the
	// last one. It must not block. Nil: discarded.
	Events func(api.Event)
	// Logger receives failed writes, which are retried. Nil: discarded.
	Logger *slog.Logger
	// Backoff is the pause after the first failed call to the API server for a claim; the pause
	// doubles with each further failure, up to MaxBackoff. 0: 500 ms and 5 minutes.
	Backoff, MaxBackoff time.Duration
}

// A ClaimStatus writes the results of expansions on this node to the status of claims: the
// capacity, the state of the expansion, and its conditions. Set Report as
// [manager.Config.Expansions], and [manager.Config.ControllerExpands] if a controller expands the
// volumes of the cluster.
//
// A write is a patch of the version that the decision was based on. Each decision that leads to a
// write is based on a read from the API server, so that it sees earlier writes. After a conflict a
// new decision follows at once. Failed calls are retried for as long as they fail. A result that
// changes nothing causes no call. The status of a claim that was deleted and created anew with the
// same name does not change.
type ClaimStatus struct {
	config ClaimStatusConfig
	pool   *workers.Pool[api.Key]

	mu      sync.Mutex // never held during a call of other code
	growths map[api.Key]*reportedGrowth
}

// A reportedGrowth is the growth of a claim until it is in the status of the claim.
type reportedGrowth struct {
	growth
	reports int // so far
	// success is true if a success was reported that no event has announced.
	success bool
	// failureText is the text of the last announced failure, and "" after a success.
	failureText string
}

// NewClaimStatus returns a ClaimStatus, which reads and writes only during Run. The error for an
// invalid configuration wraps a *field.Error.
func NewClaimStatus(config ClaimStatusConfig) (*ClaimStatus, error) {
	at := field.NewPath("ClaimStatusConfig")
	switch {
	case config.Source == nil:
		return nil, fmt.Errorf("node: %w", field.Required(at.Child("Source"), "a source has the claims"))
	case config.Backoff < 0:
		return nil, fmt.Errorf("node: %w", field.Invalid(at.Child("Backoff"), config.Backoff.String(), "must be at least 0"))
	case config.MaxBackoff < 0:
		return nil, fmt.Errorf("node: %w", field.Invalid(at.Child("MaxBackoff"), config.MaxBackoff.String(), "must be at least 0"))
	}
	if config.Events == nil {
		config.Events = func(api.Event) {}
	}
	config.Logger = cmp.Or(config.Logger, slog.New(slog.DiscardHandler))
	c := &ClaimStatus{config: config, growths: map[api.Key]*reportedGrowth{}}
	var err error
	c.pool, err = workers.New(workers.Config[api.Key]{
		Name: "claim status", Handle: c.handle, Logger: config.Logger, Backoff: config.Backoff, MaxBackoff: config.MaxBackoff,
	})
	if err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	return c, nil
}

// Run writes the reported results until ctx ends; then it returns nil, and all goroutines of the
// ClaimStatus have ended. Results that are not written by then are lost: after a restart the manager
// grows a volume again whose claim does not have its size, and reports it. A second call returns an
// error.
func (c *ClaimStatus) Run(ctx context.Context) error {
	defer c.config.Source.Subscribe(c.addChanged)()
	return c.pool.Run(ctx)
}

// Report receives the result of an attempt to grow a volume: it is [manager.Config.Expansions].
// Report does not block. Results are kept until Run has written them.
func (c *ClaimStatus) Report(e manager.Expansion) {
	key, g, ok := growthOf(e)
	if !ok {
		return
	}
	used := c.config.Source.usedClaims()
	c.mu.Lock()
	for other, reported := range c.growths {
		if !used[other] && reported.failure == nil && !reported.success {
			delete(c.growths, other)
		}
	}
	reported := c.growths[key]
	if reported == nil || !g.isOfSame(reported.growth) {
		reported = &reportedGrowth{growth: g}
		c.growths[key] = reported
	}
	reported.growth = g.after(reported.growth)
	reported.reports++
	reported.success = g.failure == nil
	c.mu.Unlock()
	c.pool.Add(key)
}

// addChanged queues the changed claims with a growth. The controller may have allowed their
// completion.
func (c *ClaimStatus) addChanged(change manager.Change) {
	for _, key := range change.Claims {
		if _, ok := c.growthOf(key); ok {
			c.pool.Add(key)
		}
	}
}

func (c *ClaimStatus) growthOf(key api.Key) (reportedGrowth, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reported := c.growths[key]; reported != nil {
		return *reported, true
	}
	return reportedGrowth{}, false
}

// handle writes the growth of a claim, unless the last state of the claim shows that no write is
// needed.
func (c *ClaimStatus) handle(ctx context.Context, key api.Key) (none workers.Result, err error) {
	reported, ok := c.growthOf(key)
	if !ok {
		return none, nil
	}
	now := metav1.Now()
	if last := c.config.Source.lastClaim(key); reported.isOf(last) && decideStatus(last, reported.growth, now).IsEmpty() {
		c.confirmGrowth(key, reported, last)
		return none, nil
	}
	claims := c.config.Source.config.Cluster.PersistentVolumeClaims(key.Namespace)
	claim, err := claims.Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err):
		c.forget(key, reported)
		return none, nil
	case err != nil:
		return none, fmt.Errorf("read claim %s: %w", key, err)
	case !reported.isOf(claim):
		c.forget(key, reported)
		return none, nil
	}
	if change := decideStatus(claim, reported.growth, now); !change.IsEmpty() {
		data, err := change.Patch(claim)
		if err != nil {
			return none, err
		}
		claim, err = claims.Patch(ctx, key.Name, types.StrategicMergePatchType, data, metav1.PatchOptions{}, "status")
		if err != nil {
			return none, fmt.Errorf("patch the status of claim %s: %w", key, err)
		}
	}
	c.confirmGrowth(key, reported, claim)
	return none, nil
}

// confirmGrowth announces a growth that is in the status of the claim, and drops it unless the claim must
// still receive its size: the controller expands the volume to another size meanwhile.
func (c *ClaimStatus) confirmGrowth(key api.Key, reported reportedGrowth, claim *v1.PersistentVolumeClaim) {
	c.mu.Lock()
	current := c.growths[key]
	if current == nil || current.reports != reported.reports {
		c.mu.Unlock()
		return // a newer result is queued
	}
	event, ok := current.announce()
	current.failure = nil
	capacity := claim.Status.Capacity[v1.ResourceStorage]
	if current.failureText == "" && (current.size == nil || quantity.Check(&capacity) == nil && capacity.Cmp(*current.size) >= 0) {
		delete(c.growths, key)
	}
	c.mu.Unlock()
	if ok {
		event.Object = claim
		c.config.Events(event)
	}
}

// announce returns the event of the last result. ok is false if an event has announced the result
// before.
func (r *reportedGrowth) announce() (event api.Event, ok bool) {
	switch {
	case r.success:
		r.success, r.failureText = false, ""
		return api.Event{
			Type: v1.EventTypeNormal, Reason: manager.VolumeResizeSuccessful,
			Message: fmt.Sprintf("volume %q has %s on its node", brief.Name(r.volume), quantity.Text(r.size)),
		}, true
	case r.failure == nil || r.failureText == r.failure.Error():
		return api.Event{}, false
	}
	r.failureText = r.failure.Error()
	return api.Event{
		Type: v1.EventTypeWarning, Reason: manager.VolumeResizeFailed,
		Message: fmt.Sprintf("volume %q: %s", brief.Name(r.volume), messageOf(r.failure)),
	}, true
}

// forget drops the growth of a claim that no longer exists.
func (c *ClaimStatus) forget(key api.Key, reported reportedGrowth) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if current := c.growths[key]; current != nil && current.reports == reported.reports {
		delete(c.growths, key)
	}
}
