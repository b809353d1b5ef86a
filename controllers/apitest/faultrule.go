package apitest

import (
	"math"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"k8s.io/apimachinery/pkg/watch"
)

// faults are the faults of a server. Its methods require Server.mu.
type faults struct {
	seed   uint64
	rules  int // added so far
	calls  []*callRule
	events []*eventRule
	holds  []*scope // stop the events of watches
	stale  []*staleRule
}

func newFaults(seed uint64) faults { return faults{seed: seed} }

// A scope selects the processes of an identity, or of all identities for "".
type scope struct{ identity string }

func (s scope) covers(c *Cluster) bool {
	return !c.exempt && (s.identity == "" || s.identity == c.identity)
}

// A staleRule permits lists to return the state at a version.
type staleRule struct {
	scope
	version uint64
}

// listVersion returns the version of the state that a list of a process returns, at least version.
func (f *faults) listVersion(c *Cluster, version, current uint64) uint64 {
	for _, r := range f.stale {
		if r.covers(c) {
			current = min(current, max(version, r.version))
		}
	}
	return current
}

// holdsOf returns the number of holds of a process.
func (f *faults) holdsOf(c *Cluster) (n int) {
	for _, h := range f.holds {
		if h.covers(c) {
			n++
		}
	}
	return n
}

// A pace chooses by Skip, Times and Share among the calls or events that a rule selects.
type pace struct {
	seed, rule  uint64
	skip, times int
	share       float64
	hits        int
	seen        map[string]int // number of equal calls or events so far, if share is set
}

func (f *faults) newPace(skip, times int, share float64) *pace {
	f.rules++
	return &pace{seed: f.seed, rule: uint64(f.rules), skip: skip, times: times, share: share, seen: map[string]int{}}
}

// hit reports whether a rule applies to the selected call or event with this name, and counts it.
func (p *pace) hit(name func() string) bool {
	if p.skip > 0 {
		p.skip--
		return false
	}
	if p.times > 0 && p.hits >= p.times {
		return false
	}
	if p.share > 0 && p.share < 1 {
		name := name()
		nth := p.seen[name]
		p.seen[name]++
		if float64(hash(p.seed, "share", p.rule, name, nth))/math.MaxUint64 >= p.share {
			return false
		}
	}
	p.hits++
	return true
}

type callRule struct {
	Fault
	pace *pace
}

// A callFault is the sum of the faults that hit a call.
type callFault struct {
	latency time.Duration
	failure Failure
	crash   bool
	late    bool // failure or crash come after the effect
}

// ofCall returns the sum of the faults that hit a call.
func (f *faults) ofCall(call Call) (sum callFault) {
	for _, r := range f.calls {
		if !r.Call.covers(call) || r.When != nil && !r.When(call) || !r.pace.hit(func() string { return call.Identity + " " + call.String() }) {
			continue
		}
		sum.latency += r.Latency
		if sum.failure == nil && !sum.crash {
			sum.failure, sum.crash, sum.late = r.Failure, r.Crash, r.AfterEffect
		}
	}
	return sum
}

type eventRule struct {
	EventFault
	pace *pace
}

// ofEvent returns the first fault that hits an event of a watch, or the zero fault.
func (f *faults) ofEvent(w *watcher, kind watch.EventType, object api.Object) EventFault {
	if w.cluster.exempt {
		return EventFault{}
	}
	i := slices.IndexFunc(f.events, func(r *eventRule) bool {
		return (r.Identity == "" || r.Identity == w.cluster.identity) &&
			(r.Resource == "" || r.Resource == w.sel.kind.resource.Resource) &&
			(r.When == nil || r.When(kind, object)) &&
			r.pace.hit(func() string {
				return w.cluster.identity + " " + w.sel.kind.resource.Resource + " " + string(kind) + " " + api.KeyOf(object).String()
			})
	})
	if i < 0 {
		return EventFault{}
	}
	return f.events[i].EventFault
}
