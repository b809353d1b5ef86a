package telemetry_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/controllers/internal/telemetry"
)

// TestText: an event takes any text: the API server refuses more than 1024 bytes, and invalid UTF-8.
func TestText(t *testing.T) {
	require.Equal(t, "rpc error: no disk", telemetry.Text("rpc error:\nno disk"))
	for _, text := range []string{"\xff", strings.Repeat("ä", 10_000), strings.Repeat("\xff\n", 10_000)} {
		got := telemetry.Text(text)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), 1024)
		require.NotContains(t, got, "\n")
	}
}
