package simtest

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/volumekit/volumekit/controllers/apitest"
)

// A Fault is a fault of an API server that lasts until end.
type Fault struct {
	Name  string
	Begin func(*Faults) (end func())
}

// Faults begin and end faults at random.
type Faults struct {
	*rand.Rand
	*Trace
	Server *apitest.Server
	// All are the faults to choose from.
	All []Fault

	ends []func()
}

// Injected returns the Begin of a fault that package apitest has.
func Injected(f apitest.Fault) func(*Faults) func() {
	return func(s *Faults) func() { return s.Server.Inject(f) }
}

// OfServer returns the faults of all calls and watches. The process does not crash.
func OfServer() []Fault {
	return []Fault{
		{"internal errors", Injected(apitest.Fault{Share: 0.3, Failure: apitest.InternalError})},
		{"internal errors after the effect", Injected(apitest.Fault{Share: 0.5, Failure: apitest.InternalError, AfterEffect: true})},
		{"timeouts after the effect", Injected(apitest.Fault{Share: 0.5, Failure: apitest.ServerTimeout, AfterEffect: true})},
		{"429", Injected(apitest.Fault{Share: 0.5, Failure: apitest.TooManyRequests(time.Second)})},
		{"conflicts", Injected(apitest.Fault{Call: apitest.Call{Verb: apitest.Patch}, Share: 0.5, Failure: apitest.Conflict})},
		{"missing rights", Injected(apitest.Fault{When: isWrite, Share: 0.5, Failure: apitest.Forbidden})},
		{"denied writes", Injected(apitest.Fault{When: isWrite, Share: 0.5, Failure: apitest.Denied(403)})},
		{"writes denied with 406", Injected(apitest.Fault{When: isWrite, Share: 0.5, Failure: apitest.Denied(406)})},
		{"401", Injected(apitest.Fault{Failure: apitest.Unauthorized})},
		{"an outage", func(s *Faults) func() { return s.Server.StartOutage("") }},
		{"held events", func(s *Faults) func() { return s.Server.HoldEvents("") }},
		{"stale lists", func(s *Faults) func() { return s.Server.StaleLists("") }},
		{"slow calls", Injected(apitest.Fault{Share: 0.5, Latency: 20 * time.Second})},
		{"cut watches", func(s *Faults) func() { return s.Server.InjectEvents(apitest.EventFault{Share: 0.5, Cut: true}) }},
		{"late events", func(s *Faults) func() {
			return s.Server.InjectEvents(apitest.EventFault{Share: 0.3, Delay: time.Duration(1+s.IntN(300)) * time.Second})
		}},
	}
}

func isWrite(c apitest.Call) bool {
	return c.Verb != apitest.Watch && c.Verb != apitest.List && c.Verb != apitest.Get
}

// Crashes returns the faults that crash a process at one of its next writes.
func Crashes() []Fault {
	crash := func(late bool) func(*Faults) func() {
		return func(s *Faults) func() {
			return s.Server.Inject(apitest.Fault{
				When: func(c apitest.Call) bool { return c.Verb == apitest.Get || isWrite(c) },
				Skip: s.IntN(6), Times: 1, Crash: true, AfterEffect: late,
			})
		}
	}
	return []Fault{{"a crash", crash(false)}, {"a crash after the effect", crash(true)}}
}

// Disturb begins a fault, or lets the server forget old versions.
func (s *Faults) Disturb() {
	n := s.IntN(len(s.All) + 1)
	if n == len(s.All) {
		s.Log("compaction")
		s.Server.Compact()
		return
	}
	fault := s.All[n]
	s.Log("fault: %s", fault.Name)
	end := fault.Begin(s)
	s.ends = append(s.ends, func() {
		s.Log("end of fault: %s", fault.Name)
		end()
	})
}

// Recover ends one of the faults.
func (s *Faults) Recover() {
	if len(s.ends) == 0 {
		return
	}
	i := s.IntN(len(s.ends))
	s.ends[i]()
	s.ends = slices.Delete(s.ends, i, i+1)
}

// RecoverAll ends all faults.
func (s *Faults) RecoverAll() {
	for len(s.ends) > 0 {
		s.Recover()
	}
}
