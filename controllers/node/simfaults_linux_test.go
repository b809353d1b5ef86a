package node_test

import (
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
)

// simFaults are the faults that last until a later step ends them. The share of calls or events that
// a fault hits is less than 1, or the fault is an outage.
var simFaults = []struct {
	name  string
	begin func(*simulation) (end func())
}{
	{"internal errors", failing(0.3, apitest.InternalError)},
	{"internal errors after the effect", failingLate(0.5, apitest.InternalError)},
	{"timeouts after the effect", failingLate(0.5, apitest.ServerTimeout)},
	{"429", failing(0.5, apitest.TooManyRequests(time.Second))},
	{"410", failing(0.4, apitest.Expired)},
	{"503", failing(0.5, apitest.Unavailable)},
	{"401", failing(1, apitest.Unauthorized)},
	{"an expired certificate", failing(1, apitest.CertificateExpired)},
	{"an outage", func(s *simulation) func() { return s.server.StartOutage("") }},
	{"held events", func(s *simulation) func() { return s.server.HoldEvents("") }},
	{"stale lists", func(s *simulation) func() { return s.server.StaleLists("") }},
	{"slow calls", func(s *simulation) func() {
		return s.server.Inject(apitest.Fault{Share: 0.5, Latency: time.Duration(1+s.IntN(40)) * time.Second})
	}},
	{"cut watches", func(s *simulation) func() { return s.server.InjectEvents(apitest.EventFault{Share: 0.5, Cut: true}) }},
	{"late events", func(s *simulation) func() {
		return s.server.InjectEvents(apitest.EventFault{Share: 0.3, Delay: time.Duration(1+s.IntN(300)) * time.Second})
	}},
}

func failing(share float64, failure apitest.Failure) func(*simulation) func() {
	return func(s *simulation) func() { return s.server.Inject(apitest.Fault{Share: share, Failure: failure}) }
}

func failingLate(share float64, failure apitest.Failure) func(*simulation) func() {
	return func(s *simulation) func() {
		return s.server.Inject(apitest.Fault{Share: share, Failure: failure, AfterEffect: true})
	}
}

// disturb begins a fault, or lets the server forget old versions or cut the watches once.
func (s *simulation) disturb() {
	switch n := s.IntN(len(simFaults) + 6); {
	case n < len(simFaults):
		fault := simFaults[n]
		s.log("fault: %s", fault.name)
		end := fault.begin(s)
		s.faults = append(s.faults, func() {
			s.log("end of fault: %s", fault.name)
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
