package protect

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decideCondition returns the status to write of the condition Unused of a claim, "" for none, and
// whether the API server has to be queried for users first. Only bound claims that live have the
// condition.
func decideCondition(claim *v1.PersistentVolumeClaim, u usage) (status v1.ConditionStatus, read bool) {
	if claim.DeletionTimestamp != nil || claim.Status.Phase != v1.ClaimBound {
		return "", false
	}
	current := unusedStatus(claim)
	isUsed := u == usedInCache || u == usedOutside
	switch {
	case isUsed && (current == "" || current == v1.ConditionTrue):
		return v1.ConditionFalse, false
	case !isUsed && current != v1.ConditionTrue:
		if u == usageUnread {
			return "", true
		}
		return v1.ConditionTrue, false
	}
	return "", false
}

// unusedStatus returns the status of the condition Unused, "" if the claim has none.
func unusedStatus(claim *v1.PersistentVolumeClaim) v1.ConditionStatus {
	i := slices.IndexFunc(claim.Status.Conditions, func(c v1.PersistentVolumeClaimCondition) bool { return c.Type == UnusedCondition })
	if i < 0 {
		return ""
	}
	return claim.Status.Conditions[i].Status
}

// newCondition returns the condition Unused with a status.
func newCondition(status v1.ConditionStatus, now time.Time) v1.PersistentVolumeClaimCondition {
	condition := v1.PersistentVolumeClaimCondition{
		Type: UnusedCondition, Status: status, LastTransitionTime: metav1.NewTime(now),
		Reason: reasonUsed, Message: "A pod refers to this claim",
	}
	if status == v1.ConditionTrue {
		condition.Reason, condition.Message = reasonUnused, "No pod refers to this claim"
	}
	return condition
}

// reportUnused sets the condition Unused of a claim. again is the pause before another call, if a pod that
// the cache lacks uses the claim.
func (c *Controller) reportUnused(ctx context.Context, key api.Key) (again time.Duration, err error) {
	claim, err := c.claims.Get(ctx, key)
	if err != nil || claim == nil {
		return 0, err
	}
	inCache, onServer := c.inCache(needsClaim), c.onServer(needsClaim)
	u := usageUnread
	if inCache(claim) {
		u = usedInCache
	}
	status, read := decideCondition(claim, u)
	if read {
		if u, err = readUsage(ctx, claim, inCache, onServer); err != nil {
			return 0, fmt.Errorf("read the users of %s: %w", key, err)
		}
		status, _ = decideCondition(claim, u)
	}
	if u == usedOutside {
		again = c.config.Recheck
	}
	if status == "" {
		return again, nil
	}
	condition := newCondition(status, time.Now())
	return again, patchObject(ctx, c.claims, key, objectpatch.Of(claim).WithCondition(condition), "status")
}
