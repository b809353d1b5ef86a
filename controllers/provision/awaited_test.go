package provision

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAwaited: the volumes of a claim are returned once, without those that have ended before the claim.
func TestAwaited(t *testing.T) {
	var a awaited
	a.forget("uid", "a")
	a.add("uid", "a")
	a.add("uid", "a")
	a.add("uid", "b")
	a.add("other", "c")
	a.forget("uid", "b")
	a.forget("other", "c")
	require.Len(t, a.volumes, 1, "ended volumes occupy no memory")
	require.Equal(t, []string{"a"}, a.remove("uid"))
	require.Empty(t, a.remove("uid"))
	require.Empty(t, a.volumes)
}
