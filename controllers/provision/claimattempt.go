package provision

import (
	"errors"
	"sync"
	"time"

	"github.com/volumekit/volumekit/volume"
	v1 "k8s.io/api/core/v1"
)

// A storageState is the state of the storage of a claim, as far as this run of the controller has
// observed it.
type storageState int

const (
	storageUnknown  storageState = iota // no call in this run
	storageAbsent                       // no storage exists
	storagePossible                     // storage exists or may come to exist
)

// An objectState is the evidence of the object of a claim's volume about the storage of the last call of
// Provision.
type objectState int

const (
	objectUnknown objectState = iota // not read since the last call
	// objectCovers: each deletion of the storage comes after the call, and before the end of the object.
	objectCovers
	// objectIsLate: another controller may have deleted the storage before the call has created it again.
	objectIsLate
)

// A claimAttempt is the memory of the controller for a claim. It is not needed after a crash.
type claimAttempt struct {
	claim   *v1.PersistentVolumeClaim // the last known state
	isOurs  bool                      // this run has added or confirmed the finalizer, or called Provision
	storage storageState
	options *Options        // of the last call, while storage is possible
	checked *checkedOptions // in the turn in which the claim receives its finalizer
	// optionsRefusal is why storage of these options, that an earlier run may have made, is discarded.
	optionsRefusal error
	described      *v1.PersistentVolume // the object to store
	refusal        error                // why the object is not stored, and the storage is discarded
	object         objectState
	isOpen         bool                             // storage may exist that described does not describe, and the next call shows
	hasDiscarded   bool                             // a second storage, besides that of the stored volume
	policy         v1.PersistentVolumeReclaimPolicy // of a late object, and of the next one; "": that of the class
	mark           string                           // of the claim before the last successful Provision
	ownMark        string                           // of the last discard
	endsDiscard    bool                             // the end of the discard is to be marked
	observedMark   string                           // the last mark of the claim
	markedSince    time.Time                        // the time since which the claim has it
	unfitNode      string                           // the selected node for which Provision has failed
	isIgnored      bool                             // by the Provisioner
	began          time.Time                        // of the first attempt
	releaseBy      time.Time                        // the end of the postponement of the finalizer's removal
	retry          retry
}

// checkedOptions are the part of options that the check before the finalizer has read from the API
// server, for the call of the same turn.
type checkedOptions struct {
	inputs     string
	node       *v1.Node
	attributes volume.VolumeAttributesClass
}

// An outcome is the result of an attempt to provision.
type outcome struct {
	options   Options
	refusal   error                // of the options, see claimAttempt.optionsRefusal
	described *v1.PersistentVolume // nil if err is not
	err       error
	mark      string // of the claim before the call
	called    bool   // false: the error is from before the call
	inputs    string
}

// checked returns the options that the check has read.
func (o outcome) checked() *checkedOptions {
	return &checkedOptions{o.inputs, o.options.SelectedNode, o.options.VolumeAttributesClass}
}

// record applies an outcome to the attempt. isNews reports whether it is to be announced.
func (a *claimAttempt) record(o outcome, now time.Time, r rules) (isNews bool) {
	a.object = objectUnknown
	if o.err == nil {
		a.storage, a.described, a.mark, a.isOpen = storagePossible, o.described, o.mark, false
		a.retry.begin(o.inputs) // the failures stay: the API server may refuse the object
		return true
	}
	a.recordStorage(o)
	a.isIgnored, a.unfitNode = false, ""
	pauses := r.provisionPauses
	switch isAbsent := a.storage == storageAbsent || a.storage == storageUnknown; {
	case !isAbsent, errors.Is(o.err, errNameTaken):
		pauses.threshold = 0
	case isIgnored(o.err):
		a.isIgnored = true
		pauses.threshold = 1
	case errors.Is(o.err, volume.ErrReschedule) && o.options.SelectedNode != nil:
		a.unfitNode = o.options.SelectedNode.Name
	case errors.Is(o.err, volume.ErrInfeasible):
		pauses.first, pauses.most = r.infeasible.first, r.infeasible.most
	}
	return a.retry.fail(now, o.inputs, o.err.Error(), pauses) && !a.isIgnored
}

// dropDescription drops the description of storage that may exist on: the next call of Provision describes it again.
func (a *claimAttempt) dropDescription() {
	if a.described != nil {
		a.described, a.isOpen = nil, true
	}
}

// recordStorage sets the state of the storage after a failed attempt.
func (a *claimAttempt) recordStorage(o outcome) {
	if !o.called {
		return
	}
	switch kindOf(o.err) {
	case volume.Final:
		a.storage, a.options, a.isOpen = storageAbsent, nil, false
	case volume.Uncertain:
		a.storage, a.options, a.optionsRefusal, a.isOpen = storagePossible, &o.options, o.refusal, true
	case volume.Transient: // as before the call
	}
}

// claimAttempts are the memory of the controller for claims. The worker of a key alone uses its attempt.
type claimAttempts struct {
	mu    sync.Mutex
	byKey map[claimKey]*claimAttempt
}

// of returns the attempt of a claim, a new one if there was none.
func (a *claimAttempts) of(key claimKey) *claimAttempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byKey[key] == nil {
		if a.byKey == nil {
			a.byKey = map[claimKey]*claimAttempt{}
		}
		a.byKey[key] = &claimAttempt{}
	}
	return a.byKey[key]
}

// has reports whether the controller remembers a claim.
func (a *claimAttempts) has(key claimKey) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.byKey[key] != nil
}

func (a *claimAttempts) forget(key claimKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byKey, key)
}
