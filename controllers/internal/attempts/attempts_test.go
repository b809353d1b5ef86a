package attempts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	"github.com/volumekit/volumekit/controllers/internal/attempts"
)

// TestMap: an attempt is that of one object, and not of a later one of its name.
func TestMap(t *testing.T) {
	var m attempts.Map[int]
	key := api.Key{Namespace: "ns", Name: "a"}
	require.Zero(t, m.Get(key, "1"))
	m.Set(key, "1", 7)
	require.Equal(t, 7, m.Get(key, "1"))
	require.Zero(t, m.Get(key, "2"))
	m.Set(key, "2", 8)
	require.Zero(t, m.Get(key, "1"))
	m.Forget(key)
	require.Zero(t, m.Get(key, "2"))
}
