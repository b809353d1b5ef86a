package bootid

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRead: the ID is one word, and the same in one start of the system.
func TestRead(t *testing.T) {
	id, err := Read()
	require.NoError(t, err)
	require.Regexp(t, `^\S*$`, id)
	require.True(t, id != "" || runtime.GOOS != "linux")
	again, err := Read()
	require.NoError(t, err)
	require.Equal(t, id, again)
}

// TestIsEarlier: an unknown start is not an earlier one.
func TestIsEarlier(t *testing.T) {
	for pair, want := range map[[2]string]bool{{"a", "b"}: true, {"a", "a"}: false, {"", "b"}: false, {"a", ""}: false, {"", ""}: false} {
		require.Equal(t, want, IsEarlier(pair[0], pair[1]), "%q", pair)
	}
}
