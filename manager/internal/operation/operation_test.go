package operation

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager/internal/naming"
)

var podA = naming.PodKey{Pod: "a", Name: "vol"}

// TestOppositeIsSymmetric: the opposite of a set-up is the tear-down of the same volume and pod, and the reverse.
// Expand is its own opposite.
func TestOppositeIsSymmetric(t *testing.T) {
	for verb := range LastVerb + 1 {
		op := Operation{Verb: verb, Volume: "plugin/vol", Pod: podA}
		opposite := op.Opposite()
		require.Equal(t, op, opposite.Opposite())
		require.Equal(t, BringsUp(verb), TakesDown(opposite.Verb), "%v", verb)
		require.Equal(t, TakesDown(verb), BringsUp(opposite.Verb), "%v", verb)
		require.Equal(t, verb == Expand, op == opposite, "%v", verb)
		opposite.Verb = verb
		require.Equal(t, op, opposite, "the volume and the pod are the same")
	}
}

// TestVerbNames: each verb has a name for people, and names for metrics.
func TestVerbNames(t *testing.T) {
	for verb := range LastVerb + 1 {
		require.NotEmpty(t, verb.String())
		require.NotEmpty(t, verb.Metric())
		require.NotEmpty(t, verb.BlockMetric())
	}
	require.Equal(t, "volume_mount", SetUp.Metric())
	require.Equal(t, "map_volume", SetUp.BlockMetric())
	require.Equal(t, "set-up a plugin/vol", Operation{Verb: SetUp, Volume: "plugin/vol", Pod: podA}.String())
	require.Equal(t, "attach plugin/vol", Operation{Verb: Attach, Volume: "plugin/vol"}.String())
}

// TestOperationsAreOrderedByVerb: operations are ordered by verb, then by volume, then by pod.
func TestOperationsAreOrderedByVerb(t *testing.T) {
	sorted := []Operation{
		{Verb: TearDown, Volume: "b", Pod: podA},
		{Verb: Attach, Volume: "a"},
		{Verb: Attach, Volume: "b"},
		{Verb: SetUp, Volume: "a", Pod: podA},
		{Verb: SetUp, Volume: "a", Pod: naming.PodKey{Pod: "b", Name: "vol"}},
	}
	all := slices.Clone(sorted)
	slices.Reverse(all)
	slices.SortFunc(all, Operation.Compare)
	require.Equal(t, sorted, all)
}
