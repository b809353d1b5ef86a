package guest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnd(t *testing.T) {
	for _, code := range []int{0, 1, 2, Failed, 137} {
		got, ok := ParseEnd(End(code))
		require.True(t, ok)
		require.Equal(t, code, got)
	}
	for _, line := range []string{"", "\n", "ok\n", Begin, "volumekit: the test ended: 0\n", "\x01volumekit: the test ended: x\x01\n"} {
		_, ok := ParseEnd(line)
		require.False(t, ok, line)
	}
}
