package apitest

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/controllers/api"
	"k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// A Fault changes the course of calls.
type Fault struct {
	// Call selects the calls: each field that is set has the same value in the call.
	Call Call
	// When selects among these calls. Nil: all. It must not call the server.
	When func(Call) bool
	// Skip is the number of selected calls that pass before the fault begins.
	Skip int
	// Times is the number of calls that the fault hits. 0: all.
	Times int
	// Share is the part of the selected calls that the fault hits, above 0 and at most 1. Whether
	// it hits a call depends on the server's seed, the call, and the number of equal calls before,
	// but not on other calls. 0: all.
	Share float64

	// Latency delays the call.
	Latency time.Duration
	// Failure is the error of the call, which then has no effect.
	Failure Failure
	// Crash crashes the process: the call has no effect.
	Crash bool
	// AfterEffect: Failure and Crash come after the effect of the call. A call that the server
	// refuses returns the server's error and does not crash the process.
	AfterEffect bool
}

// An EventFault changes the course of watch events.
type EventFault struct {
	// Identity and Resource select watches, see [Call]. "": all.
	Identity, Resource string
	// When selects among their events. The object is shared. Nil: all. It must not call the server.
	When func(kind watch.EventType, object api.Object) bool
	// Skip, Times and Share are those of a Fault.
	Skip, Times int
	Share       float64

	// Delay delays the event, and those after it that would overtake it. Delays do not add up.
	Delay time.Duration
	// Drop loses the event. No API server does so in a watch that goes on.
	Drop bool
	// Cut ends the watch before the event. The client reads the event in its next watch.
	Cut bool
}

// A Failure returns the error of a call.
type Failure func(Call) error

// Conflict returns the error 409 of an update with an old resourceVersion.
func Conflict(call Call) error {
	return errors.NewConflict(call.groupResource(), call.Name, errConflict)
}

// InternalError returns the error 500, with the reason InternalError.
func InternalError(Call) error { return errors.NewInternalError(errInjected) }

// ServerTimeout returns the error 500 with the reason ServerTimeout, which leaves open whether the
// call took effect. apierrors.IsServerTimeout is true for it, apierrors.IsTimeout is not.
func ServerTimeout(call Call) error {
	return errors.NewServerTimeout(call.groupResource(), string(call.Verb), 1)
}

// Unavailable returns the error 503.
func Unavailable(Call) error { return errors.NewServiceUnavailable("injected") }

// Unauthorized returns the error 401, such as for an expired client certificate or token.
func Unauthorized(Call) error { return errors.NewUnauthorized("injected") }

// Forbidden returns the error 403 of a missing right.
func Forbidden(call Call) error {
	return errors.NewForbidden(call.groupResource(), call.Name, injected(fmt.Sprintf(`User "injected" cannot %s resource %q in API group ""`, call.Verb, call.Resource)))
}

// Denied returns a Failure with the error of an admission webhook that denies an object. The webhook chooses the code,
// such as 403.
func Denied(code int) Failure {
	return func(Call) error {
		return &errors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: int32(code), Message: `admission webhook "injected.example.com" denied the request: injected`,
		}}
	}
}

// CertificateExpired returns the error of a client that refuses the server's certificate. It wraps
// an x509.CertificateInvalidError with the reason x509.Expired.
func CertificateExpired(call Call) error {
	return transportError(call, &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}})
}

// Refused returns the error of a connection to a server that does not listen. It wraps
// ECONNREFUSED.
func Refused(call Call) error {
	return transportError(call, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
}

// transportError returns the error of client-go's clients for a request without an answer.
func transportError(call Call, cause error) error {
	return &url.Error{Op: string(call.Verb), URL: "memory:///" + call.Resource, Err: cause}
}

// TooManyRequests returns a Failure with the error 429. Its Retry-After is in seconds, rounded
// down.
func TooManyRequests(retryAfter time.Duration) Failure {
	return func(Call) error { return errors.NewTooManyRequests("injected", int(retryAfter/time.Second)) }
}

// Expired returns the error 410, with the reason Expired.
func Expired(Call) error { return errors.NewResourceExpired("injected") }

type injected string

func (i injected) Error() string { return string(i) }

const (
	errInjected = injected("injected")
	errConflict = injected("the object has been modified; please apply your changes to the latest version and try again")
)

func (c Call) groupResource() schema.GroupResource {
	for _, k := range kinds {
		if k.resource.Resource == c.Resource {
			return k.resource
		}
	}
	return schema.GroupResource{Resource: c.Resource}
}

// Inject adds a fault for later calls. Several faults can hit one call: latencies add up, and the
// first failure or crash counts. remove ends the fault; it may be called several times.
func (s *Server) Inject(f Fault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rule := &callRule{Fault: f, pace: s.faults.newPace(f.Skip, f.Times, f.Share)}
	return addRule(s, &s.faults.calls, rule)
}

// InjectEvents adds a fault of watch events. Of several faults that hit one event the first
// counts. remove ends the fault.
func (s *Server) InjectEvents(f EventFault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rule := &eventRule{EventFault: f, pace: s.faults.newPace(f.Skip, f.Times, f.Share)}
	return addRule(s, &s.faults.events, rule)
}

// addRule adds a rule to a list that Server.mu guards. The caller holds Server.mu. remove locks
// Server.mu.
func addRule[R comparable](s *Server, rules *[]R, rule R) (remove func()) {
	*rules = append(*rules, rule)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		*rules = slices.DeleteFunc(*rules, func(r R) bool { return r == rule })
	}
}

// CutWatches ends all watches of an identity, or of all identities for "", and drops their pending
// events. It does not end watches of Direct. Clients can watch again at once.
func (s *Server) CutWatches(identity string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cutWatches(func(w *watcher) bool { return !w.cluster.exempt && (identity == "" || w.cluster.identity == identity) })
}

// StartOutage makes all calls of an identity, or of all identities for "", fail with [Refused], and
// ends their watches. end ends the outage.
func (s *Server) StartOutage(identity string) (end func()) {
	end = s.Inject(Fault{Call: Call{Identity: identity}, Failure: Refused})
	s.CutWatches(identity)
	return end
}

// HoldEvents holds back the events of all present and later watches of an identity, or of all
// identities for "": caches become stale. The objects that a watch with SendInitialEvents begins
// with are no changes: they are delivered. release delivers the events.
func (s *Server) HoldEvents(identity string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := &scope{identity: identity}
	s.faults.holds = append(s.faults.holds, h)
	s.eachWatch(h, (*watcher).hold)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		before := len(s.faults.holds)
		s.faults.holds = slices.DeleteFunc(s.faults.holds, func(other *scope) bool { return other == h })
		if len(s.faults.holds) < before {
			s.eachWatch(h, (*watcher).resume)
		}
	}
}

// StaleLists makes the lists of an identity, or of all identities for "", stale where they permit it,
// as those of an API server whose own cache is behind: a list at resourceVersion "0", or not older
// than a version, returns the present state, or that at the requested version if this is newer. Lists
// without a resourceVersion stay consistent. After [Server.Compact] no list is older than the
// compaction. end ends the fault.
func (s *Server) StaleLists(identity string) (end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return addRule(s, &s.faults.stale, &staleRule{scope{identity}, s.version})
}

// eachWatch calls f for each watch that h covers. It requires s.mu.
func (s *Server) eachWatch(h *scope, f func(*watcher)) {
	for _, k := range kinds {
		for _, w := range s.tables[k].allWatchers() {
			if h.covers(w.cluster) {
				f(w)
			}
		}
	}
}

// SendBookmarks sends a bookmark to each watch that allows bookmarks, as an API server does about
// once a minute.
func (s *Server) SendBookmarks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range kinds {
		for _, w := range s.tables[k].allWatchers() {
			w.sendBookmark()
		}
	}
}
