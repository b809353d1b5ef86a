package oneline_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/oneline"
)

func TestOf(t *testing.T) {
	for text, want := range map[string]string{
		"":             "",
		"any, ä and 語": "any, ä and 語",
		"a\nb\r\x1b[2Kc\u2028\u2029\u0085\x00\x7f": "a b  [2Kc     ",
	} {
		require.Equal(t, want, oneline.Of(text))
	}
}
