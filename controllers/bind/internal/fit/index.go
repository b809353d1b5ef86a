package fit

import (
	"slices"
	"strconv"
	"sync"

	"github.com/volumekit/volumekit/util/quantity"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Index holds the free volumes, the references of all volumes, and the waiting claims. Its methods
// are safe for concurrent use and do not block. The zero value is empty.
type Index struct {
	mu       sync.Mutex
	spaces   map[space]*part
	volumes  map[string]*volume                // free or reserved ones, by their names
	reserved map[types.UID]*volume             // by the claims
	refs     map[string]types.NamespacedName   // the references, by the names of the volumes
	byRef    map[types.NamespacedName][]string // the volumes of each reference
	states   map[string]state                  // the newest state of each volume
	waiting  map[types.NamespacedName]request
}

// A state is the version of a volume.
type state struct {
	uid     types.UID
	version string
}

// isOlder reports whether a state of a volume is older than another one. A watch may deliver the state that
// a later write has made before the answer to an earlier write comes.
func (s state) isOlder(than state) bool {
	return s.uid == than.uid && IsOlder(s.version, than.version)
}

// IsOlder reports whether the version of an object is older than that of another object of its kind. It
// returns false if one of them is no number.
func IsOlder(version, than string) bool {
	a, err := strconv.ParseUint(version, 10, 64)
	b, otherErr := strconv.ParseUint(than, 10, 64)
	return err == nil && otherErr == nil && a < b
}

// A part has the free volumes and the waiting claims of a space, by their access modes.
type part struct {
	count   int // of both
	volumes [modeCount]tree[*volume]
	claims  [modeCount]tree[request]
}

// A volume is a free volume. holder is the claim that it is reserved for, or "".
type volume struct {
	pv     *v1.PersistentVolume
	space  space
	modes  modes
	at     position
	holder types.UID
}

// part returns the part of a space for one more volume or claim. The caller holds mu.
func (x *Index) part(of space) *part {
	if x.spaces == nil {
		x.spaces = map[space]*part{}
	}
	if x.spaces[of] == nil {
		x.spaces[of] = &part{}
	}
	x.spaces[of].count++
	return x.spaces[of]
}

// leave ends the use of the part of a space by one volume or claim: tenants choose the names of spaces. The
// caller holds mu.
func (x *Index) leave(of space) {
	if x.spaces[of].count--; x.spaces[of].count == 0 {
		delete(x.spaces, of)
	}
}

// addFree adds a free volume to its part, and takeFree removes it. The caller holds mu.
func (x *Index) addFree(v *volume) { x.part(v.space).volumes[v.modes].set(v.at, v) }

func (x *Index) takeFree(v *volume) {
	x.spaces[v.space].volumes[v.modes].remove(v.at)
	x.leave(v.space)
}

// Set adds a volume, or replaces its earlier state. A state older than the known one has no effect.
// isAvailable reports whether a claim can receive it: the volume is free and not reserved. A reservation of
// a volume that is not free any more ends.
func (x *Index) Set(pv *v1.PersistentVolume) (isAvailable bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	now := state{pv.UID, pv.ResourceVersion}
	if now.isOlder(x.states[pv.Name]) {
		return false
	}
	if x.states == nil {
		x.states, x.volumes, x.reserved = map[string]state{}, map[string]*volume{}, map[types.UID]*volume{}
	}
	x.states[pv.Name] = now
	holder := x.remove(pv.Name)
	x.refer(pv)
	size := pv.Spec.Capacity[v1.ResourceStorage]
	if !IsFree(pv) || quantity.Check(&size) != nil {
		delete(x.reserved, holder)
		return false
	}
	v := &volume{pv: pv, at: position{size, pv.Name}, holder: holder}
	v.space = space{Class(pv, pv.Spec.StorageClassName), value(pv.Spec.VolumeAttributesClassName), volumeMode(pv.Spec.VolumeMode)}
	v.modes, _ = modesOf(pv.Spec.AccessModes)
	x.volumes[pv.Name] = v
	if holder != "" {
		x.reserved[holder] = v
		return false
	}
	x.addFree(v)
	return true
}

// Delete removes a volume that does not exist any more, and its reservation.
func (x *Index) Delete(name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.reserved, x.remove(name))
	delete(x.states, name)
	x.unrefer(name)
}

// remove removes a volume and returns the claim that it is reserved for. The caller holds mu.
func (x *Index) remove(name string) (holder types.UID) {
	v := x.volumes[name]
	if v == nil {
		return ""
	}
	delete(x.volumes, name)
	if v.holder == "" {
		x.takeFree(v)
	}
	return v.holder
}

// refer records the reference of a volume. The caller holds mu.
func (x *Index) refer(pv *v1.PersistentVolume) {
	x.unrefer(pv.Name)
	if pv.Spec.ClaimRef == nil {
		return
	}
	if x.refs == nil {
		x.refs, x.byRef = map[string]types.NamespacedName{}, map[types.NamespacedName][]string{}
	}
	key := types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name}
	x.refs[pv.Name] = key
	x.byRef[key] = append(x.byRef[key], pv.Name)
}

// unrefer removes the reference of a volume. The caller holds mu.
func (x *Index) unrefer(name string) {
	key, ok := x.refs[name]
	if !ok {
		return
	}
	delete(x.refs, name)
	names := x.byRef[key]
	if names = slices.DeleteFunc(names, func(n string) bool { return n == name }); len(names) == 0 {
		delete(x.byRef, key)
		return
	}
	x.byRef[key] = names
}

// Referring returns the names of the volumes whose reference names a claim, in their order.
func (x *Index) Referring(claim types.NamespacedName) []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.Sorted(slices.Values(x.byRef[claim]))
}

// Reserve chooses the volume for a claim and reserves it until Release, or until the volume is not free
// any more. For a claim with a reservation it returns the reserved volume. If no volume fits, Reserve
// returns nil, and the claim waits from then on.
func (x *Index) Reserve(claim *v1.PersistentVolumeClaim) *v1.PersistentVolume {
	return x.ReserveExcept(claim, nil)
}

// ReserveExcept is Reserve without the volumes of these names.
func (x *Index) ReserveExcept(claim *v1.PersistentVolumeClaim, rejected map[string]bool) *v1.PersistentVolume {
	r, ok := requestOf(claim)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopWaiting(r.claim)
	if v := x.reserved[claim.UID]; v != nil {
		return v.pv
	}
	if !ok {
		return nil
	}
	v := x.spaces[r.space].find(r, rejected)
	if v == nil {
		x.startWaiting(r)
		return nil
	}
	x.takeFree(v)
	v.holder = claim.UID
	x.reserved[claim.UID] = v
	return v.pv
}

// find returns the volume for a request, or nil.
func (p *part) find(r request, rejected map[string]bool) (found *volume) {
	if p == nil {
		return nil
	}
	for _, set := range supersets[r.modes] {
		p.volumes[set].ascend(position{size: r.size}, func(v *volume) bool {
			if !rejected[v.pv.Name] && r.fits(v) {
				found = v
			}
			return found == nil
		})
		if found != nil {
			return found
		}
	}
	return nil
}

// Release ends the reservation of a claim. It returns the name of the volume if the volume is free again,
// and "" otherwise.
func (x *Index) Release(claim types.UID) (volume string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	v := x.reserved[claim]
	if v == nil {
		return ""
	}
	delete(x.reserved, claim)
	v.holder = ""
	x.addFree(v)
	return v.pv.Name
}

// StopWaiting ends the waiting of a claim.
func (x *Index) StopWaiting(claim types.NamespacedName) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stopWaiting(claim)
}

func (x *Index) startWaiting(r request) {
	if x.waiting == nil {
		x.waiting = map[types.NamespacedName]request{}
	}
	x.waiting[r.claim] = r
	x.part(r.space).claims[r.modes].set(position{r.size, r.claim.String()}, r)
}

func (x *Index) stopWaiting(claim types.NamespacedName) {
	r, ok := x.waiting[claim]
	if !ok {
		return
	}
	delete(x.waiting, claim)
	x.spaces[r.space].claims[r.modes].remove(position{r.size, claim.String()})
	x.leave(r.space)
}

// Wake ends the waiting of a claim that a free volume fits, and returns the claim. The claim may choose
// another volume: the caller calls Wake again after the claim has chosen. ok is false if the volume is
// not free, or fits no waiting claim.
func (x *Index) Wake(name string) (claim types.NamespacedName, ok bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	v := x.volumes[name]
	if v == nil || v.holder != "" {
		return claim, false
	}
	of := x.spaces[v.space]
	for set := range modes(modeCount) {
		if v.modes&set != set {
			continue
		}
		of.claims[set].descend(position{v.at.size, lastName}, func(r request) bool {
			if ok = r.fits(v); ok {
				claim = r.claim
			}
			return !ok
		})
		if ok {
			x.stopWaiting(claim)
			return claim, true
		}
	}
	return claim, false
}

// Len returns the numbers of free volumes, of reserved ones, and of waiting claims.
func (x *Index) Len() (free, reserved, waiting int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.volumes) - len(x.reserved), len(x.reserved), len(x.waiting)
}
