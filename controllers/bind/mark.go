package bind

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// markPeriod is the period at which a binder renews the mark of a volume that it recycles.
	markPeriod = time.Minute
	// markPatience is the time without a renewal after which a binder ends its call.
	markPatience = 3 * time.Minute
	// markTakeover is the time for which a mark of another run must stay unchanged before a binder
	// continues: it is longer than markPatience.
	markTakeover = 5 * time.Minute
)

// errMarkLost ends a call of a recycler.
var errMarkLost = errors.New("another program has the mark of the recycling, or its renewal fails")

// A mark is the value of the RecyclingAnnotation. Others can edit it: a value that cannot be read is the mark
// of an unknown run and an unknown claim.
type mark struct {
	Namespace string    `json:"namespace"` // of the claim whose data is removed
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Run       string    `json:"run"` // of the binder that recycles
	// Renewals changes while the binder lives.
	Renewals int `json:"renewals"`
}

func isMarked(pv *v1.PersistentVolume) bool { return has(pv, RecyclingAnnotation) }

// markOf returns the mark of a volume, and the zero value if it has none or an unreadable one.
func markOf(pv *v1.PersistentVolume) mark {
	var m mark
	if err := json.Unmarshal([]byte(pv.Annotations[RecyclingAnnotation]), &m); err != nil {
		return mark{}
	}
	return m
}

// isOf reports whether the reference of a volume is the one whose data is removed.
func (m mark) isOf(ref *v1.ObjectReference) bool {
	return m.UID != "" && ref != nil && ref.Namespace == m.Namespace && ref.Name == m.Name && ref.UID == m.UID
}

// restores reports whether the reference of a volume is the one whose data is removed, without its UID or as
// a whole.
func (m mark) restores(ref *v1.ObjectReference) bool {
	return m.UID != "" && (ref == nil || ref.UID == "" && ref.Namespace == m.Namespace && ref.Name == m.Name)
}

// markPatch marks a volume as recycled by a run.
func markPatch(pv *v1.PersistentVolume, run string) (patch, error) {
	m := markOf(pv)
	if !isMarked(pv) || m.UID == "" {
		ref := pv.Spec.ClaimRef
		m = mark{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}
	}
	m.Run, m.Renewals = run, m.Renewals+1
	value, err := json.Marshal(m)
	return patchOf(pv, "spec", nil).annotated(fields{RecyclingAnnotation: string(value)}).ofVersion(pv), err
}

// restorePatch writes the reference of a mark.
func restorePatch(pv *v1.PersistentVolume) patch {
	m := markOf(pv)
	return patchOf(pv, "spec", fields{"claimRef": fields{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": m.Namespace, "name": m.Name, "uid": m.UID,
	}}).ofVersion(pv)
}

// unmarkPatch removes the mark of a volume.
func unmarkPatch(pv *v1.PersistentVolume) patch {
	return patchOf(pv, "spec", nil).annotated(fields{RecyclingAnnotation: nil}).ofVersion(pv)
}

// recycledPatch removes the mark of a volume that was recycled, and its reference, unless a user has written
// another one meanwhile.
func recycledPatch(pv *v1.PersistentVolume) patch {
	if ref := pv.Spec.ClaimRef; ref == nil || !markOf(pv).isOf(ref) {
		return unmarkPatch(pv)
	}
	p := unbindPatch(pv)
	if p.metadata["annotations"] == nil {
		p = p.annotated(fields{})
	}
	p.metadata["annotations"].(fields)[RecyclingAnnotation] = nil
	return p
}

// foreignMarks are the marks of other runs, each with the time at which its value was first seen. The zero
// value is empty.
type foreignMarks struct {
	mu   sync.Mutex
	seen map[api.Key]foreignMark
}

type foreignMark struct {
	value string
	since time.Time
}

// wait returns the time after which a run may continue the recycling of a volume: 0 for a volume without the
// mark of another run.
func (f *foreignMarks) wait(key api.Key, pv *v1.PersistentVolume, run string, now time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !isMarked(pv) || markOf(pv).Run == run {
		delete(f.seen, key)
		return 0
	}
	value := string(pv.UID) + pv.Annotations[RecyclingAnnotation]
	if f.seen[key].value != value {
		if f.seen == nil {
			f.seen = map[api.Key]foreignMark{}
		}
		f.seen[key] = foreignMark{value, now}
	}
	return max(0, markTakeover-now.Sub(f.seen[key].since))
}

func (f *foreignMarks) forget(key api.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.seen, key)
}

// renewMark renews the mark of a volume until ctx ends. It calls lose and returns if the mark is another
// run's, or is not renewed in time.
func (c *Controller) renewMark(ctx context.Context, pv *v1.PersistentVolume, lose func(error)) {
	ticker := time.NewTicker(markPeriod)
	defer ticker.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		began := time.Now()
		err := c.holdMark(ctx, pv)
		if err == nil {
			renewed = began
		}
		if errors.Is(err, errMarkLost) || time.Since(renewed) >= markPatience {
			lose(errMarkLost)
			return
		}
	}
}

// holdMark renews the mark of a volume. It returns errMarkLost if the mark is another run's.
func (c *Controller) holdMark(ctx context.Context, pv *v1.PersistentVolume) error {
	ctx, cancel := context.WithTimeout(ctx, markPeriod)
	defer cancel()
	live, err := c.volumes.Live(ctx, api.KeyOf(pv))
	if err != nil {
		return err
	}
	if !c.holdsMark(live, pv) {
		return errMarkLost
	}
	p, err := markPatch(live, c.run)
	if err != nil {
		return err
	}
	return c.patchVolume(ctx, live, p)
}

// holdsMark reports whether a volume exists and has the mark of this run.
func (c *Controller) holdsMark(now, pv *v1.PersistentVolume) bool {
	return now != nil && now.UID == pv.UID && markOf(now).Run == c.run
}
