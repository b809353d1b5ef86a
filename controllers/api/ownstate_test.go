package api

import (
	"testing"

	"github.com/stretchr/testify/require"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

type pv = *v1.PersistentVolume

func state(uid types.UID, version string) ownState[pv] { return presentState(stored(uid, version)) }

func stored(uid types.UID, version string) pv {
	return &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv", UID: uid, ResourceVersion: version}}
}

func deleted(uid types.UID, version string) pv { return withDeletionTimestamp(stored(uid, version)) }

func open(s ownState[pv]) ownState[pv] {
	s.open, s.base = true, unknownBase
	return s
}

// TestOverlappingCalls: the results of two calls about one object, recorded in either order, leave
// the state that is newer for the API server.
func TestOverlappingCalls(t *testing.T) {
	tests := map[string]struct {
		before, then ownState[pv]
		version      uint64
		gone         bool
		deleting     bool
	}{
		"a newer write":                         {state("1", "5"), state("1", "7"), 7, false, false},
		"an older write":                        {state("1", "7"), state("1", "5"), 7, false, false},
		"the end":                               {state("1", "5"), goneState(stored("1", "5")), 5, true, false},
		"a read from before the end":            {goneState(stored("1", "5")), state("1", "5"), 5, true, false},
		"a write from before the end":           {goneState(stored("1", "5")), state("1", "6"), 5, true, false},
		"a deletion":                            {state("1", "5"), deletingState(stored("1", "5")), 5, false, true},
		"a read from before the deletion":       {deletingState(stored("1", "5")), state("1", "5"), 5, false, true},
		"a write from before the deletion":      {deletingState(stored("1", "5")), state("1", "6"), 6, false, true},
		"a deletion before a newer write":       {state("1", "7"), deletingState(stored("1", "5")), 7, false, true},
		"a deletion before a read after it":     {presentState(deleted("1", "6")), deletingState(stored("1", "5")), 6, false, true},
		"a read after the deletion":             {deletingState(stored("1", "5")), presentState(deleted("1", "6")), 6, false, true},
		"the next object of the name":           {goneState(stored("1", "5")), state("2", "6"), 6, false, false},
		"the object before of the name":         {state("2", "6"), state("1", "5"), 6, false, false},
		"the end of the object before":          {state("2", "6"), goneState(stored("1", "5")), 6, false, false},
		"the end after an unknown open outcome": {open(ownState[pv]{}), goneState(stored("1", "5")), 5, true, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := test.then.after(test.before)
			require.Equal(t, test.version, got.version)
			require.Equal(t, test.gone, got.object == nil)
			if !test.gone {
				require.Equal(t, test.deleting, got.object.DeletionTimestamp != nil)
			}
			require.False(t, got.open)
		})
	}
}

// TestOpenAfterOverlappingCalls: a result that says nothing about the open outcome leaves it open
// only if it says nothing itself.
func TestOpenAfterOverlappingCalls(t *testing.T) {
	finalized := stored("1", "5")
	finalized.Finalizers = []string{"example.com/one"}
	require.True(t, deletingState(finalized).after(open(state("1", "4"))).open, "the version after the deletion is unknown")
	require.False(t, state("1", "6").after(open(state("1", "5"))).open)
	require.False(t, state("1", "5").after(open(state("1", "6"))).open)
}

// TestSeen: an object that the cache has had, and has no more, has ended; one that it never had may
// come.
func TestSeen(t *testing.T) {
	synced := func() uint64 { return 0 }
	s := state("1", "7")
	now := s.since
	require.Equal(t, "7", s.view(reader[pv]{nil, now, synced}).object.ResourceVersion)
	require.Equal(t, "7", s.view(reader[pv]{stored("2", "3"), now, synced}).object.ResourceVersion)
	require.Equal(t, "7", s.view(reader[pv]{nil, now, synced}).object.ResourceVersion, "another object of the name has ended")
	require.Equal(t, "7", s.view(reader[pv]{stored("1", "5"), now, synced}).object.ResourceVersion)
	require.Equal(t, view[pv]{reached: true}, s.view(reader[pv]{nil, now, synced}))
}

// TestEndedByAWrite: an update that removes the last finalizer of an object that is being deleted
// ends the object; a namespace has finalizers in its spec, too.
func TestEndedByAWrite(t *testing.T) {
	now, grace := metav1.Now(), int64(30)
	deletion := metav1.ObjectMeta{DeletionTimestamp: &now}
	graceful := metav1.ObjectMeta{DeletionTimestamp: &now, DeletionGracePeriodSeconds: &grace}
	finalized := metav1.ObjectMeta{DeletionTimestamp: &now, Finalizers: []string{"example.com/one"}}
	tests := map[string]struct {
		object Object
		want   bool
	}{
		"no deletion":                     {&v1.Pod{}, false},
		"no finalizer":                    {&v1.Pod{ObjectMeta: deletion}, true},
		"a finalizer":                     {&v1.Pod{ObjectMeta: finalized}, false},
		"a grace period":                  {&v1.Pod{ObjectMeta: graceful}, false},
		"a namespace without a finalizer": {&v1.Namespace{ObjectMeta: deletion}, true},
		"a namespace with content":        {&v1.Namespace{ObjectMeta: deletion, Spec: v1.NamespaceSpec{Finalizers: []v1.FinalizerName{v1.FinalizerKubernetes}}}, false},
	}
	for name, test := range tests {
		require.Equal(t, test.want, isEnded(test.object), name)
	}
}
