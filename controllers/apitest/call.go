package apitest

import "strings"

// A Verb names the operation of a call.
type Verb string

// The verbs. An update of the status is an update with the subresource status.
const (
	Get    Verb = "get"
	List   Verb = "list"
	Watch  Verb = "watch"
	Create Verb = "create"
	Update Verb = "update"
	Patch  Verb = "patch"
	Delete Verb = "delete"
)

// A Call is one request to the server.
type Call struct {
	// Identity is the identity of the process, see [Server.Connect].
	Identity string
	Verb     Verb
	// Resource is the kind in plural and lower case, such as persistentvolumeclaims.
	Resource    string
	Subresource string // status, token or ""
	Namespace   string
	// Name is "" for the creation of an object with a generated name, and for a list or a watch
	// unless its field selector requires a metadata.name: API servers authorize these by the name.
	Name string
	// FieldSelector and LabelSelector are those of a list or a watch.
	FieldSelector, LabelSelector string
	// Err is the error that the process received. Nil: none, or the call has not returned yet.
	Err error
}

// String returns the call without identity, selectors and error, such as
// "update persistentvolumeclaims/status ns/claim".
func (c Call) String() string {
	text := string(c.Verb) + " " + c.Resource
	if c.Subresource != "" {
		text += "/" + c.Subresource
	}
	switch object := strings.Trim(c.Namespace+"/"+c.Name, "/"); {
	case object == "":
		return text
	case c.Name == "":
		return text + " " + c.Namespace + "/"
	default:
		return text + " " + object
	}
}

// covers reports whether each field that is set in the pattern c has the same value in call. Err
// is no part of patterns.
func (c Call) covers(call Call) bool {
	return (c.Identity == "" || c.Identity == call.Identity) && (c.Verb == "" || c.Verb == call.Verb) &&
		(c.Resource == "" || c.Resource == call.Resource) && (c.Subresource == "" || c.Subresource == call.Subresource) &&
		(c.Namespace == "" || c.Namespace == call.Namespace) && (c.Name == "" || c.Name == call.Name) &&
		(c.FieldSelector == "" || c.FieldSelector == call.FieldSelector) && (c.LabelSelector == "" || c.LabelSelector == call.LabelSelector)
}

// Calls returns the calls that the pattern covers, in the order of their arrival: each field that
// is set in the pattern has the same value in the call. The zero pattern covers all calls. Calls
// of Direct are not recorded.
func (s *Server) Calls(pattern Call) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var covered []Call
	for _, call := range s.calls {
		if pattern.covers(*call) {
			covered = append(covered, *call)
		}
	}
	return covered
}

// ForgetCalls drops all recorded calls.
func (s *Server) ForgetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = nil
}
