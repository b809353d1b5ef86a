package node_test

import (
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
)

// simFaults are the faults that last until a later step ends them. The share of calls or events that
// a fault hits is less than 1, or the fault is an outage. Those with all set concern all kinds of
// objects, the others all or one kind.
var simFaults = []struct {
	name  string
	all   bool
	begin func(s *simulation, resource string) (end func())
}{
	{"internal errors", false, failing(0.3, apitest.InternalError)},
	{"internal errors after the effect", false, failingLate(0.5, apitest.InternalError)},
	{"timeouts after the effect", false, failingLate(0.5, apitest.ServerTimeout)},
	{"429", false, failing(0.5, apitest.TooManyRequests(time.Second))},
	{"410", false, failing(0.4, apitest.Expired)},
	{"503", false, failing(0.5, apitest.Unavailable)},
	{"401", false, failing(1, apitest.Unauthorized)},
	{"an expired certificate", true, failing(1, apitest.CertificateExpired)},
	{"an outage", true, func(s *simulation, _ string) func() { return s.server.StartOutage("") }},
	{"held events", true, func(s *simulation, _ string) func() { return s.server.HoldEvents("") }},
	{"stale lists", true, func(s *simulation, _ string) func() { return s.server.StaleLists("") }},
	{"slow calls", false, func(s *simulation, resource string) func() {
		return s.server.Inject(apitest.Fault{
			Call: apitest.Call{Resource: resource}, Share: 0.5, Latency: time.Duration(1+s.IntN(40)) * time.Second,
		})
	}},
	{"cut watches", false, func(s *simulation, resource string) func() {
		return s.server.InjectEvents(apitest.EventFault{Resource: resource, Share: 0.5, Cut: true})
	}},
	{"late events", false, func(s *simulation, resource string) func() {
		return s.delayEvents(resource, 0.3, 1+s.IntN([]int{20, 300}[s.IntN(2)]))
	}},
	{"lost results and late events of the node", true, func(s *simulation, _ string) func() {
		endResults := failingLate(0.7, apitest.InternalError)(s, "nodes")
		endDelay := s.delayEvents("nodes", 0.7, 1+s.IntN(20))
		return func() { endResults(); endDelay() }
	}},
	{"a crash before a write", false, crashing(false)},
	{"a crash after a write", false, crashing(true)},
}

// delayEvents delays a share of the events. The delays of a watch add up: together to less than simCalm.
func (s *simulation) delayEvents(resource string, share float64, seconds int) (end func()) {
	return s.server.InjectEvents(apitest.EventFault{
		Resource: resource, Share: share, Delay: time.Duration(seconds) * time.Second, Times: max(1, 300/seconds),
	})
}

// simWritten are the kinds that the program writes, or reads before it uses a volume.
var simWritten = []string{"nodes", "nodes", "nodes", "persistentvolumeclaims", "volumeattachments"}

func failing(share float64, failure apitest.Failure) func(*simulation, string) func() {
	return func(s *simulation, resource string) func() {
		return s.server.Inject(apitest.Fault{Call: apitest.Call{Resource: resource}, Share: share, Failure: failure})
	}
}

func failingLate(share float64, failure apitest.Failure) func(*simulation, string) func() {
	return func(s *simulation, resource string) func() {
		return s.server.Inject(apitest.Fault{Call: apitest.Call{Resource: resource}, Share: share, Failure: failure, AfterEffect: true})
	}
}

// crashing crashes the program at one of its next writes.
func crashing(afterEffect bool) func(*simulation, string) func() {
	return func(s *simulation, resource string) func() {
		return s.server.Inject(apitest.Fault{
			Call: apitest.Call{Verb: apitest.Patch, Resource: resource}, Skip: s.IntN(3), Times: 1, Crash: true, AfterEffect: afterEffect,
		})
	}
}

// disturb begins a fault, or lets the server forget old versions or cut the watches once.
func (s *simulation) disturb() {
	switch n := s.IntN(len(simFaults) + 6); {
	case n < len(simFaults):
		fault, resource := simFaults[n], ""
		if !fault.all && (s.IntN(2) == 0 || s.isOfClaims) {
			resource = simWritten[s.IntN(len(simWritten))]
		}
		s.log("fault: %s %s", fault.name, resource)
		end := fault.begin(s, resource)
		s.faults = append(s.faults, func() {
			s.log("end of fault: %s %s", fault.name, resource)
			end()
		})
	case n < len(simFaults)+2:
		s.log("compaction")
		s.server.Compact()
	case n < len(simFaults)+4:
		s.log("all watches are cut")
		s.server.CutWatches("")
	default:
		s.log("bookmarks")
		s.server.SendBookmarks()
	}
}

// recover ends a fault.
func (s *simulation) recover() {
	if len(s.faults) == 0 {
		return
	}
	i := s.IntN(len(s.faults))
	s.faults[i]()
	s.faults = append(s.faults[:i], s.faults[i+1:]...)
}
