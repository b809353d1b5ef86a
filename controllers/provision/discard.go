package provision

import (
	"context"
	"crypto/rand"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// The states of a discard, with which the value of [DiscardAnnotation] begins. The rest of the value is
// random: no two writes have the same value.
const (
	discardBegun = "begun "
	discardEnded = "ended "
)

// leastMarkWait is the least time for which a claim waits for the discard of another controller.
const leastMarkWait = 10 * time.Minute

// markOf returns the mark of a claim, or "".
func markOf(claim *v1.PersistentVolumeClaim) string {
	if claim == nil {
		return ""
	}
	return claim.Annotations[DiscardAnnotation]
}

// observeMark records since when the claim has its mark. A run does not wait for the discard of an earlier
// run: of a mark that it finds on a claim that was guarded before.
func (a *claimAttempt) observeMark(v claimView, now time.Time) {
	mark := markOf(v.claim)
	if mark == a.observedMark {
		return
	}
	wasGuarded := a.storage == storageUnknown && (v.hasGuard() || !v.rules.guardsClaims)
	a.observedMark, a.markedSince = mark, now
	if wasGuarded {
		a.markedSince = time.Time{}
	}
}

// isMarked reports whether another discard than those before the last successful Provision may have
// deleted the storage.
func (v claimView) isMarked() bool {
	mark := markOf(v.claim)
	return mark != "" && mark != v.attempt.mark && v.role != foreign
}

// awaitDiscard returns how long the claim waits for the discard of another controller. The wait is longer
// than a call of Delete, so a controller that has ended delays no claim for good.
func (v claimView) awaitDiscard(now time.Time) time.Duration {
	mark := markOf(v.claim)
	if !v.isMarked() || mark == v.attempt.ownMark || !strings.HasPrefix(mark, discardBegun) {
		return 0
	}
	return max(0, v.attempt.markedSince.Add(v.rules.markWait).Sub(now))
}

// markClaim sets the mark of a claim. A claim that does not exist needs none.
func (c *Controller) markClaim(ctx context.Context, claim *v1.PersistentVolumeClaim, mark string) error {
	if claim == nil {
		return nil
	}
	err := c.patchClaim(ctx, claim, objectpatch.Of(claim).WithAnnotation(DiscardAnnotation, mark))
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// beginDiscard marks the claim before a call of Delete.
func (c *Controller) beginDiscard(ctx context.Context, v claimView, a *claimAttempt) error {
	a.ownMark = discardBegun + rand.Text()
	return c.markClaim(ctx, v.claim, a.ownMark)
}

// endDiscard marks the claim after a call of Delete: the next Provision comes after it.
func (c *Controller) endDiscard(ctx context.Context, v claimView, a *claimAttempt) error {
	if err := c.markClaim(ctx, v.claim, discardEnded+rand.Text()); err != nil {
		return err
	}
	a.endsDiscard = false
	return nil
}
