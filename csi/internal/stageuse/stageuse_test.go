package stageuse

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUses: any number of publications of a volume, or its unstaging, is in flight, and other volumes do not wait.
func TestUses(t *testing.T) {
	var u Uses
	first, err := u.Publish("a")
	require.NoError(t, err)
	second, err := u.Publish("a")
	require.NoError(t, err)
	first()
	_, err = u.Unstage("a")
	require.ErrorIs(t, err, ErrPublishing)
	other, err := u.Unstage("b")
	require.NoError(t, err)
	second()
	end, err := u.Unstage("a")
	require.NoError(t, err)
	_, err = u.Publish("a")
	require.ErrorIs(t, err, ErrUnstaging)
	end()
	other()
	last, err := u.Publish("a")
	require.NoError(t, err)
	last()
	require.Empty(t, u.publishing)
	require.Empty(t, u.unstaging)
}
