package api

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// verifyAfter is the age at which an own state is read again from the API server if the cache has
// never shown the object: another program may have deleted the object before a new list of the
// cache.
const verifyAfter = 30 * time.Second

// unknownBase is the base of a write after which no version in the cache counts as newer: only a
// read from the API server closes the state.
const unknownBase = ^uint64(0)

// An ownState is the state of an object after own writes, until the cache has reached it.
//
//	(none) --write, live read--> present --the cache reaches the version--> (none)
//	present --Delete--> deleting --the cache shows a deletion timestamp, or the end--> (none)
//	present, deleting --not found, last finalizer removed--> gone --the cache shows the end--> (none)
//	any --conflict, open outcome--> open --a live read, or news in the cache--> present, gone, (none)
type ownState[O Object] struct {
	object  O         // present and deleting: served; gone: nil
	uid     types.UID // of the object, also in the state gone
	version uint64    // of the last state that the API server returned
	since   time.Time

	// deleting: object is a copy with a deletion timestamp which no API server has returned.
	deleting bool
	// old: deleting, and the version after the deletion is unknown. Get calls the API server for it.
	old bool
	// seen: the cache has contained an object with the UID, so that its absence from the cache is
	// the end of the object and not a delay of the cache.
	seen bool
	// open: the next read calls the API server, unless the cache has a version above base.
	open bool
	base uint64
}

// presentState returns the state of an object that the API server has returned.
func presentState[O Object](object O) ownState[O] {
	return ownState[O]{object: object, uid: object.GetUID(), version: versionOf(object)}
}

// goneState returns the state after the end of a known object, and the zero state if no object of
// the name was known.
func goneState[O Object](known O) ownState[O] {
	if !exists(known) {
		return ownState[O]{}
	}
	return ownState[O]{uid: known.GetUID(), version: versionOf(known)}
}

// deletingState returns the state after a call of Delete, which does not return the new version.
// The state of an object with finalizers is old: an update that removes a finalizer needs that version.
func deletingState[O Object](known O) ownState[O] {
	state := presentState(known)
	state.deleting = known.GetDeletionTimestamp() == nil
	state.object = withDeletionTimestamp(known)
	state.old = len(known.GetFinalizers()) > 0
	return state
}

// withDeletionTimestamp returns the object, or a copy with a deletion timestamp.
func withDeletionTimestamp[O Object](object O) O {
	if object.GetDeletionTimestamp() != nil {
		return object
	}
	copied := object.DeepCopyObject().(O)
	now := metav1.Now()
	copied.SetDeletionTimestamp(&now)
	return copied
}

// after merges the new state s with the state before. It returns the newer one: the calls that
// returned the two states may have overlapped.
func (s ownState[O]) after(before ownState[O]) ownState[O] {
	if s.uid != before.uid {
		if before.version > s.version {
			before.open = before.open && s.open
			return before
		}
		return s
	}
	s.seen = s.seen || before.seen
	switch {
	case !exists(s.object): // a UID never comes back
		return s
	case !exists(before.object) && before.version > 0, before.version > s.version:
		before.open, before.seen = before.open && (s.open || s.old), s.seen
		if s.deleting && exists(before.object) && before.object.GetDeletionTimestamp() == nil {
			before.object, before.deleting, before.old = withDeletionTimestamp(before.object), true, s.old
		}
		return before
	case before.deleting && s.object.GetDeletionTimestamp() == nil:
		s.object, s.deleting, s.old = withDeletionTimestamp(s.object), true, before.old
	}
	if s.old && before.open { // a deletion says nothing about the outcome of an earlier write
		s.open, s.base = true, before.base
	}
	return s
}

// A view is the answer to a read.
type view[O Object] struct {
	object  O    // nil: does not exist
	reached bool // the cache has reached the own state, which is no longer needed
	open    bool // only the API server can answer
	old     bool // only the API server has the version of object
}

// A reader is the cache as view needs it.
type reader[O Object] struct {
	object O             // nil: the cache has none
	now    time.Time     // of the read
	synced func() uint64 // the newest version that the cache has received
}

// view decides between the own state and the object in the cache.
func (s *ownState[O]) view(r reader[O]) view[O] {
	v := s.choose(r)
	v.old = s.old && !v.reached && !v.open
	return v
}

func (s *ownState[O]) choose(r reader[O]) view[O] {
	cached := r.object
	inCache := exists(cached)
	s.seen = s.seen || inCache && cached.GetUID() == s.uid
	switch {
	case s.open && !(inCache && versionOf(cached) > s.base):
		return view[O]{open: true}
	case s.uid == "" && s.version == 0: // reopen created the state; no object is known
		return view[O]{object: cached, reached: true}
	case !inCache:
		return s.viewAbsent(r)
	case cached.GetUID() != s.uid:
		return s.viewOther(cached)
	}
	return s.viewSame(cached)
}

// viewAbsent returns the view if the cache has no object of the name.
func (s *ownState[O]) viewAbsent(r reader[O]) view[O] {
	late := r.now.Sub(s.since) > verifyAfter
	switch {
	case s.seen:
		return view[O]{reached: true}
	case late && exists(s.object):
		return view[O]{open: true}
	case late && r.synced() >= s.version: // the cache has passed the version without the object
		return view[O]{reached: true}
	}
	return view[O]{object: s.object}
}

// viewOther returns the view if the cache has an older or newer object of the same name.
func (s *ownState[O]) viewOther(cached O) view[O] {
	if versionOf(cached) >= s.version {
		return view[O]{object: cached, reached: true}
	}
	return view[O]{object: s.object}
}

// viewSame returns the view if the cache has the object with the same UID.
func (s *ownState[O]) viewSame(cached O) view[O] {
	switch {
	case !exists(s.object):
		return view[O]{}
	case versionOf(cached) < s.version:
		return view[O]{object: s.object}
	case s.deleting && cached.GetDeletionTimestamp() == nil: // a write before the deletion
		if versionOf(cached) > s.version {
			s.object, s.version = withDeletionTimestamp(cached), versionOf(cached)
		}
		return view[O]{object: s.object}
	}
	return view[O]{object: cached, reached: true}
}
