// Package apicalls records the calls of a client to an API server.
package apicalls

import (
	"net/http"
	"strings"
	"sync"
)

// A Call is one request to an API server.
type Call struct {
	Verb     string // as in rules of RBAC: get, list, watch, create, update, patch, delete, deletecollection
	Resource string // with its subresource, such as serviceaccounts/token
	// Name is the name of the object, or the field selector of a list or watch.
	Namespace, Name string
	// Code is the HTTP status of the response; 0: there was none.
	Code int
}

// Right returns the verb and the resource, such as "list configmaps".
func (c Call) Right() string { return c.Verb + " " + c.Resource }

// A Recorder records calls. It is safe for concurrent use. The zero value has no calls.
type Recorder struct {
	mu    sync.Mutex
	calls []Call
}

// Wrap returns a transport that records its requests. It is the WrapTransport of a rest.Config.
func (r *Recorder) Wrap(next http.RoundTripper) http.RoundTripper { return recording{r, next} }

// Take returns the calls since the last Take, in the order of their responses.
func (r *Recorder) Take() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

type recording struct {
	recorder *Recorder
	next     http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t recording) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	call := callOf(request)
	if err == nil {
		call.Code = response.StatusCode
	}
	t.recorder.mu.Lock()
	defer t.recorder.mu.Unlock()
	t.recorder.calls = append(t.recorder.calls, call)
	return response, err
}

// callOf returns the call of a request. A path that names no resource is the resource.
func callOf(request *http.Request) Call {
	path := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	call := Call{Verb: verbs[request.Method]}
	switch {
	case path[0] == "api" && len(path) > 2:
		path = path[2:]
	case path[0] == "apis" && len(path) > 3:
		path = path[3:]
	default:
		call.Resource = request.URL.Path
		return call
	}
	if path[0] == "namespaces" && len(path) > 2 {
		call.Namespace, path = path[1], path[2:]
	}
	call.Resource = path[0]
	if len(path) > 2 {
		call.Resource += "/" + strings.Join(path[2:], "/")
	}
	if len(path) > 1 {
		call.Name = path[1]
		return call
	}
	query := request.URL.Query()
	call.Name = query.Get("fieldSelector")
	switch {
	case request.Method == http.MethodDelete:
		call.Verb = "deletecollection"
	case request.Method == http.MethodGet && (query.Get("watch") == "true" || query.Get("watch") == "1"):
		call.Verb = "watch"
	case request.Method == http.MethodGet:
		call.Verb = "list"
	}
	return call
}

// verbs are the verbs of requests for single objects.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodPost: "create", http.MethodPut: "update",
	http.MethodPatch: "patch", http.MethodDelete: "delete",
}
