package manager

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A verb is what an operation does. The order is that in which operations begin.
type verb int

const (
	tearDown      verb = iota // take the volume away from a pod
	attach                    // connect it to the node, and wait for its device
	mountDevice               // mount or map it once for all pods
	setUp                     // bring it up for a pod
	expand                    // grow its file system
	unmountDevice             // undo mountDevice
	detach                    // undo attach

	lastVerb = detach
)

// An operation is a step from the actual state of the world towards the desired one.
type operation struct {
	verb   verb
	volume v1.UniqueVolumeName
	pod    podKey // of tearDown and setUp
}

func (o operation) compare(p operation) int {
	return cmp.Or(cmp.Compare(o.verb, p.verb), strings.Compare(string(o.volume), string(p.volume)), o.pod.compare(p.pod))
}

func (k podKey) compare(l podKey) int {
	return cmp.Or(strings.Compare(string(k.pod), string(l.pod)), strings.Compare(k.name, l.name))
}

// A schedule says what must not begin now.
type schedule struct {
	// running are the volumes with an operation in flight, or with one that was given
	// up and has not ended.
	running map[v1.UniqueVolumeName]bool
	// reported are the volumes that may be attached; nil: all.
	reported map[v1.UniqueVolumeName]bool
	// unknown are the plugins of which something is there that is not understood.
	unknown map[string]bool
	// strange are directories in which something is that is not understood.
	strange map[podDir]bool
	// retry is when an operation that failed may be tried again.
	retry map[operation]attempt
	// revisions change when SetUp is to be called again on a volume that is up.
	revisions map[podKey]int64
}

// plan returns the operations that are to begin now: at most one for each volume. And
// when to ask again if nothing changes until then; zero: never. It changes nothing and
// asks nobody, and the same worlds give the same operations in the same order.
//
// Each volume goes through
//
//	absent --attach--> attached --mountDevice--> mounted once --setUp--> up in pods
//	       <--detach--          <-unmountDevice-              <-tearDown-
//
// skipping what its plugin does not need. What is uncertain is done again on the way
// up, and taken down on the way down; nothing is detached or unmounted below anything
// that is, or may be, there.
func plan(want desiredWorld, have actualWorld, s schedule, now time.Time) (ops []operation, again time.Time) {
	for _, name := range names(want, have) {
		op, ok, later := planVolume(name, want, have, s, now)
		if ok {
			ops = append(ops, op)
		}
		again = earlier(again, later)
	}
	slices.SortFunc(ops, operation.compare)
	return ops, again
}

// planVolume is plan for one volume, which depends on no other.
func planVolume(name v1.UniqueVolumeName, want desiredWorld, have actualWorld, s schedule, now time.Time) (op operation, ok bool, again time.Time) {
	if s.running[name] {
		return operation{}, false, time.Time{}
	}
	p := plannerOf(name, want, have, s, now)
	if op, ok = p.next(); ok {
		return op, true, time.Time{}
	}
	return operation{}, false, p.again
}

func plannerOf(name v1.UniqueVolumeName, want desiredWorld, have actualWorld, s schedule, now time.Time) planner {
	p := planner{
		schedule: s, name: name, want: want.volumes[name], have: have.volumes[name],
		now: now, down: want.populated, keep: want.keep, dirs: have.dirs, storage: have.storage,
	}
	if p.have == nil {
		p.have = &actualVolume{}
	}
	if p.want == nil {
		p.want = &desiredVolume{traits: p.have.traits}
	}
	return p
}

// earlier returns the earlier of two times, of which zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func names(want desiredWorld, have actualWorld) []v1.UniqueVolumeName {
	all := slices.AppendSeq(slices.Collect(maps.Keys(want.volumes)), maps.Keys(have.volumes))
	slices.Sort(all)
	return slices.Compact(all)
}

// A planner finds the next operation of one volume.
type planner struct {
	schedule
	name    v1.UniqueVolumeName
	want    *desiredVolume
	have    *actualVolume
	now     time.Time
	down    bool // what is not wanted may be taken down
	keep    map[types.UID]bool
	dirs    dirMap
	storage map[storage][]v1.UniqueVolumeName

	again time.Time
}

func (p *planner) next() (operation, bool) {
	for _, step := range []func() (operation, bool){p.tearDowns, p.setUps, p.repair, p.expansion, p.release} {
		if op, ok := step(); ok {
			return op, true
		}
	}
	return operation{}, false
}

// due returns the operation, unless it failed a moment ago.
func (p *planner) due(v verb, pod podKey) (operation, bool) {
	op := operation{verb: v, volume: p.name, pod: pod}
	if until := p.retry[op].until; until.After(p.now) {
		p.again = earlier(p.again, until)
		return operation{}, false
	}
	return op, true
}

// tearDowns: pods that no longer want the volume lose it, before others get it.
func (p *planner) tearDowns() (operation, bool) {
	if !p.down {
		return operation{}, false
	}
	for key, pod := range p.have.pods.all() {
		if p.want.pods.get(key) != nil || pod.state == absent || p.keep[key.pod] {
			continue
		}
		if op, ok := p.due(tearDown, key); ok {
			return op, true
		}
	}
	return operation{}, false
}

// setUps: pods that want the volume get it.
func (p *planner) setUps() (operation, bool) {
	if p.isAnother() {
		return operation{}, false
	}
	for key := range p.want.pods.all() {
		if !p.needsSetUp(key) || p.mustWait(key) || p.mustWaitForReaders(key) {
			continue
		}
		if op, ok := p.stepFor(key); ok {
			return op, true
		}
	}
	return operation{}, false
}

// stepFor is the next step towards the volume in a pod.
func (p *planner) stepFor(key podKey) (operation, bool) {
	if _, ok := p.firstStep(key); ok {
		return p.first(key)
	}
	return p.due(setUp, key)
}

func (p *planner) needsSetUp(key podKey) bool {
	pod := p.have.pods.get(key)
	return pod == nil || pod.state != present || pod.revision != p.revisions[key]
}

// mustWait: another volume is in the pod's directory; or the volume is for one pod at a
// time and another's. Of two that may have it the first gets on.
func (p *planner) mustWait(key podKey) bool { return p.isOccupied(key) || p.isOthers(key) }

func (p *planner) isOccupied(key podKey) bool {
	other := p.dirs.get(podDir{key.pod, p.want.plugin, key.name})
	return other != "" && other != p.name
}

func (p *planner) isOthers(key podKey) bool {
	if !p.want.traits.onePod {
		return false
	}
	mine := p.have.stateOf(key)
	for other, pod := range p.have.pods.all() {
		theirs := pod.state
		if other != key && (theirs > mine || theirs == uncertain && other.compare(key) < 0) {
			return true
		}
	}
	return p.foundElsewhere(key)
}

// foundElsewhere reports whether the same storage may be up under another name, as a
// plugin has recovered it after a restart, or in another pod and not understood.
func (p *planner) foundElsewhere(key podKey) bool {
	for dir := range p.strange {
		if dir.plugin == p.want.plugin && dir.name == key.name && dir.pod != key.pod {
			return true
		}
	}
	for _, name := range p.storage[storage{p.want.plugin, p.want.name}] {
		if name != p.name {
			return true
		}
	}
	return false
}

// isAnother reports whether what is there is another volume of the same name, that has
// been deleted and made anew: it has to go before this one comes.
func (p *planner) isAnother() bool {
	want, have := p.want.spec, p.have.spec
	if want == nil || have == nil || p.have.isNothing() {
		return false
	}
	if want.IsBlock() != have.IsBlock() {
		return true
	}
	return want.PersistentVolume != nil && have.PersistentVolume != nil && want.PersistentVolume.UID != "" &&
		have.PersistentVolume.UID != "" && want.PersistentVolume.UID != have.PersistentVolume.UID
}

// firstStep is what the volume needs before a pod can have it.
func (p *planner) firstStep(key podKey) (verb, bool) {
	switch {
	case p.want.traits.attachable && p.have.attached != present:
		return attach, true
	case p.want.traits.onDevice() && p.have.device != present:
		return mountDevice, true
	case p.have.deviceReadOnly && !p.have.deviceStaysSo && p.want.isWriter(key):
		return mountDevice, true // perhaps it can be remounted
	}
	return 0, false
}

// isForReaders reports whether the volume is mounted for pods that only read it, and
// another wants it.
func (p *planner) isForReaders() bool {
	return p.have.device == present && p.have.deviceReadOnly && p.want.hasWriter()
}

// mustWaitForReaders: the pod writes, and the others have to go before it can.
func (p *planner) mustWaitForReaders(key podKey) bool {
	return p.isForReaders() && p.have.deviceStaysSo && p.want.isWriter(key)
}

// repair: what a volume that is up stands on is as it should be.
func (p *planner) repair() (operation, bool) { return p.first(podKey{}) }

// first is the first step for a pod, or, without one, for those that are up.
func (p *planner) first(key podKey) (operation, bool) {
	v, ok := p.firstStep(key)
	if !ok || len(p.want.pods) == 0 || p.isAnother() || v == attach && p.isUnreported() {
		return operation{}, false
	}
	return p.due(v, podKey{})
}

// isUnreported: the cluster has yet to hear that the volume is in use.
func (p *planner) isUnreported() bool { return p.reported != nil && !p.reported[p.name] }

// expansion: a volume that is up is grown to the size of its storage.
func (p *planner) expansion() (operation, bool) {
	if !p.have.isSmaller(p.want) || !p.isUp() || p.isAnother() || p.have.deviceReadOnly {
		return operation{}, false
	}
	return p.due(expand, podKey{})
}

// isSmaller reports whether the volume was not yet grown to the size that is wanted.
func (v *actualVolume) isSmaller(want *desiredVolume) bool {
	return want.size != nil && (v.size == nil || v.size.Cmp(*want.size) < 0)
}

func (p *planner) isUp() bool {
	for key := range p.want.pods.all() {
		if pod := p.have.pods.get(key); pod != nil && pod.state == present {
			return true
		}
	}
	return false
}

// release: what no pod wants or has is unmounted and detached, unless it is not known
// what the pod wants that it was there for. What is mounted for pods that only read, and
// have gone, is unmounted for one that writes.
func (p *planner) release() (operation, bool) {
	switch {
	case !p.mayRelease():
		return operation{}, false
	case p.have.device != absent:
		return p.due(unmountDevice, podKey{})
	case p.have.attached != absent:
		return p.due(detach, podKey{})
	}
	return operation{}, false
}

func (p *planner) mayRelease() bool {
	switch {
	case p.keep[p.have.lastPod.pod] && !p.isAnother():
		return false
	case !p.down || len(p.want.pods) > 0 && !p.isAnother() && !p.isForReaders() || p.have.inUse(podKey{}) || p.unknown[p.have.plugin]:
		return false
	}
	return true
}
