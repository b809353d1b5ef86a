package volumekit_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReadmeExamples: the program texts in the README are those that are compiled and
// run here.
func TestReadmeExamples(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	example, err := os.ReadFile("example_test.go")
	require.NoError(t, err)
	blocks := strings.Split(string(readme), "```go\n")[1:]
	require.Len(t, blocks, 2)
	for _, block := range blocks {
		block, _, ok := strings.Cut(block, "```")
		require.True(t, ok)
		require.Contains(t, string(example), block)
	}
}
