package operation

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/naming"
)

// TestFlightsAreFoundByOperation: flights are found by their operation and listed by volume, the oldest first. A copy
// keeps its flights.
func TestFlightsAreFoundByOperation(t *testing.T) {
	first := &Flight{Operation: Operation{Verb: TearDown, Volume: "a", Pod: podA}}
	second := &Flight{Operation: Operation{Verb: TearDown, Volume: "a", Pod: naming.PodKey{Pod: "b", Name: "vol"}}}
	other := &Flight{Operation: Operation{Verb: Attach, Volume: "b"}}
	var all Flights
	for _, f := range []*Flight{first, second, other} {
		require.Nil(t, all.Find(f.Operation))
		all.Add(f)
		require.Same(t, f, all.Find(f.Operation))
	}
	before := all
	require.Equal(t, []*Flight{first, second}, all.Of("a"))
	require.Equal(t, 2, all.Len(), "the number of volumes")
	require.ElementsMatch(t, []*Flight{first, second, other}, slices.Collect(all.All()))

	all.Drop(first)
	require.Equal(t, []*Flight{second}, all.Of("a"))
	require.True(t, all.IsBusy("a"))
	all.Drop(second)
	require.False(t, all.IsBusy("a"))
	require.Equal(t, 1, all.Len())
	require.Equal(t, []*Flight{first, second}, before.Of("a"))
}

// TestCheckMountsAtEnd: a check is requested of all flights of one volume.
func TestCheckMountsAtEnd(t *testing.T) {
	var all Flights
	one, another := &Flight{Operation: Operation{Verb: TearDown, Volume: "a", Pod: podA}}, &Flight{Operation: Operation{Volume: "a"}}
	other := &Flight{Operation: Operation{Volume: "b"}}
	for _, f := range []*Flight{one, another, other} {
		all.Add(f)
	}
	all.CheckMountsAtEnd("a")
	require.True(t, one.CheckAfter)
	require.True(t, another.CheckAfter)
	require.False(t, other.CheckAfter)
}
