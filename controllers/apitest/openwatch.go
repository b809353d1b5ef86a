package apitest

import (
	"cmp"
	"slices"
)

// An OpenWatch is a watch that has not ended.
type OpenWatch struct {
	// Identity is the identity of the process, see [Server.Connect].
	Identity string
	// Resource is the kind in plural and lower case, such as persistentvolumeclaims.
	Resource string
	// Namespace of the watched objects. "": all.
	Namespace string
	// FieldSelector and LabelSelector select the watched objects. "": all.
	FieldSelector, LabelSelector string
}

// OpenWatches returns the watches of an identity, or of all identities for "", sorted by their
// fields. Watches of Direct are left out. A test for leaks compares the result with the watches that
// a process needs.
func (s *Server) OpenWatches(identity string) (open []OpenWatch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.eachWatch(&scope{identity}, func(w *watcher) {
		open = append(open, OpenWatch{
			Identity: w.cluster.identity, Resource: w.sel.kind.resource.Resource, Namespace: w.sel.namespace,
			FieldSelector: w.sel.fields.String(), LabelSelector: w.sel.labels.String(),
		})
	})
	slices.SortFunc(open, func(a, b OpenWatch) int {
		return cmp.Or(cmp.Compare(a.Identity, b.Identity), cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.Namespace, b.Namespace),
			cmp.Compare(a.FieldSelector, b.FieldSelector), cmp.Compare(a.LabelSelector, b.LabelSelector))
	})
	return open
}
