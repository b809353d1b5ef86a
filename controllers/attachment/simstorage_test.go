package attachment_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/volumekit/volumekit/controllers/attachment"
	"github.com/volumekit/volumekit/controllers/internal/simtest"
	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A simTarget is a volume on a node.
type simTarget struct{ handle, nodeID string }

// A simStorage has the attached volumes of a simulation, and checks the calls for them.
type simStorage struct {
	s  *simulation
	mu sync.Mutex
	*rand.Rand
	isCalm  bool
	checked map[string]bool // the handles of volumes that have passed the check
	targets map[simTarget]*simState
}

// A simState is the state of a volume on a node.
type simState struct {
	isAttached bool
	isLost     bool // by the storage, since the last call
	isBusy     bool
	late       simtest.Late
	open       *simOpen
}

// A simOpen is an Attach whose outcome is unknown.
type simOpen struct {
	volume *v1.PersistentVolumeSpec
	start  int64     // the process
	cause  types.UID // the VolumeAttachment, if only one has the target
}

func newSimStorage(s *simulation, seed uint64) *simStorage {
	return &simStorage{s: s, Rand: rand.New(rand.NewPCG(seed, 2)), checked: map[string]bool{}, targets: map[simTarget]*simState{}}
}

// A simLister is a storage that lists the attached volumes.
type simLister struct{ *simStorage }

func (d simLister) ListAttached(context.Context) ([]attachment.Attached, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isCalm && d.IntN(10) == 0 {
		return nil, errBroken
	}
	var list []attachment.Attached
	for at, state := range d.targets {
		if state.isAttached {
			list = append(list, attachment.Attached{VolumeHandle: at.handle, NodeIDs: []string{at.nodeID}})
		}
	}
	return list, nil
}

func (d *simStorage) Name() string { return driver }

// Check fails at random.
func (d *simStorage) Check(_ context.Context, pv *v1.PersistentVolume) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.isCalm && d.IntN(8) == 0 {
		return errBroken
	}
	d.checked[pv.Spec.CSI.VolumeHandle] = true
	return nil
}

func (d *simStorage) Attach(ctx context.Context, req attachment.Request) (map[string]string, error) {
	at, err := d.call(ctx, req, true)
	if err != nil {
		return nil, err
	}
	return map[string]string{"device": at.handle + "-" + at.nodeID}, nil
}

func (d *simStorage) Detach(ctx context.Context, req attachment.Request) error {
	_, err := d.call(ctx, req, false)
	return err
}

// call attaches or detaches a volume, with an outcome at random.
func (d *simStorage) call(ctx context.Context, req attachment.Request, attaches bool) (simTarget, error) {
	at := simTarget{req.Volume.Spec.CSI.VolumeHandle, req.NodeID}
	delay := d.begin(at, req, attaches)
	select {
	case <-time.After(delay):
	case <-ctx.Done():
	}
	err := d.end(at, req, attaches, ctx.Err())
	d.s.Log("  attach %v: %v, %v, %v", attaches, at, err, volume.KindOf(err))
	return at, err
}

// begin checks a call, and returns its duration.
func (d *simStorage) begin(at simTarget, req attachment.Request, attaches bool) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.s.Log("  attach %v: %v", attaches, at)
	state := d.targets[at]
	if state == nil {
		state = &simState{}
		d.targets[at] = state
	}
	if !d.s.hasTwins {
		if state.isBusy {
			d.s.Fail("two calls for %v", at)
		}
		if attaches {
			d.checkAttach(at, state, req)
		} else {
			d.checkDetach(at)
		}
	}
	state.isBusy = true
	if d.isCalm || d.IntN(2) == 0 {
		return 0
	}
	return time.Duration(d.IntN(60)) * time.Second
}

// checkAttach checks that the objects cover an Attach.
func (d *simStorage) checkAttach(at simTarget, state *simState, req attachment.Request) {
	if !d.checked[at.handle] {
		d.s.Fail("Attach of %v, which has not passed its check", at)
	}
	causes := d.causesOf(at)
	if len(causes) == 0 {
		d.s.Fail("Attach of %v without a finalizer of a VolumeAttachment", at)
	}
	isGuarded := false
	for _, pv := range d.s.Volumes() {
		isGuarded = isGuarded || pv.UID == req.Volume.UID && slices.Contains(pv.Finalizers, finalizer)
	}
	if !isGuarded {
		d.s.Fail("Attach of %v without a finalizer of its volume", at)
	}
	open := state.open
	if open != nil && open.start == d.s.starts.Load() && slices.Equal(causes, []types.UID{open.cause}) && !reflect.DeepEqual(*open.volume, req.Volume.Spec) {
		d.s.Fail("Attach of %v with another volume while an outcome is unknown", at)
	}
}

// causesOf returns the VolumeAttachments with a finalizer and a target.
func (d *simStorage) causesOf(at simTarget) (causes []types.UID) {
	for _, a := range d.s.attachments() {
		if recordOf(&a) == at && slices.Contains(a.Finalizers, finalizer) {
			causes = append(causes, a.UID)
		}
	}
	return causes
}

// checkDetach checks that no VolumeAttachment promises the volume.
func (d *simStorage) checkDetach(at simTarget) {
	for _, a := range d.s.attachments() {
		if isPromised(&a) && recordOf(&a) == at {
			d.s.Fail("Detach of %v, which %s promises", at, a.Name)
		}
	}
}

var errBroken = errors.New("the storage is broken")

// end ends a call with an outcome at random.
func (d *simStorage) end(at simTarget, req attachment.Request, attaches bool, ended error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	state := d.targets[at]
	state.isBusy = false
	outcome := 100
	if !d.isCalm {
		outcome = d.IntN(16)
	}
	if ended != nil {
		outcome = d.IntN(3)
	}
	if outcome < 3 && attaches {
		state.open = &simOpen{volume: req.Volume.Spec.DeepCopy(), start: d.s.starts.Load()}
		if causes := d.causesOf(at); len(causes) == 1 {
			state.open.cause = causes[0]
		}
	}
	switch outcome {
	case 0: // before the effect
		return volume.AsUncertain(errBroken)
	case 1: // after the effect
		state.set(attaches)
		return volume.AsUncertain(errBroken)
	case 2: // before a late effect
		state.late.Add(&d.mu, time.Duration(d.IntN(300))*time.Second, func() { state.set(attaches) })
		return volume.AsUncertain(errBroken)
	case 3:
		return volume.AsTransient(errBroken)
	}
	// This call ends what earlier ones have begun.
	state.late.End()
	state.open = nil
	if outcome < 6 {
		return errBroken
	}
	state.set(attaches)
	return nil
}

func (s *simState) set(isAttached bool) {
	s.isAttached, s.isLost = isAttached, false
}

// lose detaches a volume without a call, if a list shows it.
func (d *simStorage) lose() {
	at, ok := simtest.One(d.s.Rand, d.allAttached())
	if !ok || !d.s.hasList {
		return
	}
	d.s.Log("the storage loses %v", at)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.targets[at].isAttached, d.targets[at].isLost = false, true
}

// has reports whether a volume is attached.
func (d *simStorage) has(at simTarget) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.targets[at] != nil && d.targets[at].isAttached
}

// hasLost reports whether the storage has lost a volume since its last call.
func (d *simStorage) hasLost(at simTarget) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.targets[at] != nil && d.targets[at].isLost
}

// allAttached returns all attached volumes, in an order.
func (d *simStorage) allAttached() (all []simTarget) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for at, state := range d.targets {
		if state.isAttached {
			all = append(all, at)
		}
	}
	slices.SortFunc(all, func(a, b simTarget) int {
		return strings.Compare(a.handle+" "+a.nodeID, b.handle+" "+b.nodeID)
	})
	return all
}

// calm ends the failures.
func (d *simStorage) calm() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isCalm = true
}
