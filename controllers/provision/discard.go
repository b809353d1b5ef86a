package provision

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/volumekit/volumekit/controllers/internal/objectpatch"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// observeMark records since when this run has seen the mark of the claim.
func (a *claimAttempt) observeMark(v claimView, now time.Time) {
	if mark := markOf(v.claim); mark != a.observedMark {
		a.observedMark, a.markedSince = mark, now
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

// markClaim sets the mark of a claim, with the finalizer that proves it. A claim that does not exist needs no mark.
// The API server adds no finalizer to a claim in deletion.
func (c *Controller) markClaim(ctx context.Context, claim *v1.PersistentVolumeClaim, mark string) error {
	if claim == nil {
		return nil
	}
	p := objectpatch.Of(claim).WithAnnotation(DiscardAnnotation, mark)
	if claim.DeletionTimestamp == nil {
		p = p.WithFinalizer(ClaimFinalizer)
	}
	err := c.patchClaim(ctx, claim, p)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// beginDiscard marks the claim before a call of Delete, and reports whether the marked claim was bound.
func (c *Controller) beginDiscard(ctx context.Context, v claimView, a *claimAttempt) (isBound bool, err error) {
	a.ownMark = discardBegun + rand.Text()
	if err := c.markClaim(ctx, v.claim, a.ownMark); err != nil {
		return false, err
	}
	marked, err := c.claims.Get(ctx, keyOfClaim(a.claim).Key)
	if err != nil {
		return false, fmt.Errorf("read claim %s/%s: %w", a.claim.Namespace, a.claim.Name, err)
	}
	return marked != nil && marked.UID == a.claim.UID && c.mayHaveData(marked), nil
}

// endDiscard marks the claim after a call of Delete: the next Provision comes after it.
func (c *Controller) endDiscard(ctx context.Context, v claimView, a *claimAttempt) error {
	if err := c.markClaim(ctx, v.claim, discardEnded+rand.Text()); err != nil {
		return err
	}
	a.endsDiscard = false
	return nil
}

// isOtherStorage reports whether the annotations show that the stored volume of a claim is in another storage than the
// provisioned one, as of two controllers with one name and a storage each. A volume with the same source is the same
// one, also if the names of the storage differ.
func isOtherStorage(stored, provisioned *v1.PersistentVolume) bool {
	if provisioned == nil || equality.Semantic.DeepEqual(stored.Spec.PersistentVolumeSource, provisioned.Spec.PersistentVolumeSource) {
		return false
	}
	theirs, ours := stored.Annotations[volume.StorageAnnotation], provisioned.Annotations[volume.StorageAnnotation]
	return theirs != "" && ours != "" && theirs != ours
}

// discardSecond deletes the storage that was provisioned for a claim whose stored volume is in another storage. It reads
// the stored volume with the permission for the call, directly before the call. After a failure the storage may exist
// in part: Provision is called again before it is stored or deleted.
func (c *Controller) discardSecond(ctx context.Context, v claimView, a *claimAttempt) error {
	isOther := false
	err := c.call(ctx, func(ctx context.Context) error {
		stored, err := c.volumes.Live(ctx, c.volumeKey(a.claim))
		if err != nil {
			return volume.AsTransient(fmt.Errorf("read volume %q: %w", a.described.Name, err))
		}
		if isOther = stored != nil && isOtherStorage(stored, a.described); !isOther {
			return nil // the next view shows the same
		}
		return c.delete(ctx, a.described)
	})
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil && !isOther:
		return nil
	case err == nil, isIgnored(err):
		a.storage, a.described, a.refusal, a.options, a.hasDiscarded = storageAbsent, nil, nil, nil, true
		return nil
	}
	a.dropDescription()
	failure := fmt.Errorf("delete the second storage, besides that of the stored volume: %w", err)
	c.reportFailedProvision(a, failure, a.retry.fail(time.Now(), v.inputs(), failure.Error(), pauseRule{first: c.config.Backoff, most: c.config.MaxBackoff}))
	return nil
}
