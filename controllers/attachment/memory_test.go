package attachment

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/api"
	v1 "k8s.io/api/core/v1"
)

// TestSetLost: a lost volume is news once, and the attempt of a later VolumeAttachment of the name stays.
func TestSetLost(t *testing.T) {
	var a attempts
	key := api.Key{Name: "a"}
	require.False(t, a.setLost(key, "old", false))
	require.Empty(t, a.of)
	require.True(t, a.setLost(key, "old", true))
	require.False(t, a.setLost(key, "old", true))
	require.True(t, a.get(key, "old").isLost)
	require.True(t, a.setLost(key, "old", false))
	require.Empty(t, a.of)

	open := &v1.PersistentVolume{}
	a.change(key, "new", func(last *attempt) { last.open = open })
	require.False(t, a.setLost(key, "old", true))
	require.Equal(t, attempt{attachment: "new", open: open}, a.get(key, "new"))
}
