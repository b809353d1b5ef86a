package input_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/volumekit/volumekit/internal/input"
)

// TestProblems: a name that begins with a valid one is not valid if it is longer than a rule permits, and the
// rule does not get megabytes.
func TestProblems(t *testing.T) {
	for name, rule := range map[string]func(string) []string{
		"subdomain": validation.IsDNS1123Subdomain, "label": validation.IsDNS1123Label, "qualified name": validation.IsQualifiedName,
		"label value": validation.IsValidLabelValue, "key": validation.IsConfigMapKey,
	} {
		require.Empty(t, input.Problems(rule, "a"), name)
		require.Equal(t, rule("-"), input.Problems(rule, "-"), name)
		for _, long := range []string{strings.Repeat("a", 1<<20), strings.Repeat("a", 253) + "/" + strings.Repeat("a", 1<<20)} {
			passed := 0
			require.NotEmpty(t, input.Problems(func(text string) []string { passed = len(text); return rule(text) }, long), name)
			require.LessOrEqual(t, passed, 1<<10, name)
		}
	}
	require.Empty(t, input.Problems(validation.IsQualifiedName, strings.Repeat("a", 253)+"/"+strings.Repeat("a", 63)), "the longest name")
}
