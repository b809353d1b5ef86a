package endstates

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestComparison: a difference needs an explanation, and an explanation a difference.
func TestComparison(t *testing.T) {
	c := Comparison{
		Peer: "theirs", Ours: map[string]string{"equal": "a\n", "explained": "b\n", "differs": "c\n", "alike": "d\n"},
		Theirs:      map[string]string{"equal": "a\n", "explained": "x\n", "differs": "y\n", "alike": "d\n"},
		Differences: map[string]string{"explained": "on purpose", "alike": "once", "missing": "unknown"},
	}
	require.Equal(t, []string{
		"alike: no difference any more, or no situation: once", "missing: no difference any more, or no situation: unknown",
		"differs\n-- theirs:\ny\n\n-- ours:\nc\n",
	}, c.failures())
	require.Equal(t, "# alike\nd\n# differs\nc\n## theirs\ny\n# equal\na\n# explained\nb\n## theirs\nx\n", c.text(func(string) bool { return true }))
	require.Equal(t, "# explained\nb\n## theirs\nx\n", c.text(func(name string) bool { return name == "explained" }))
	c = Comparison{Ours: map[string]string{"equal": "a"}, Theirs: map[string]string{"equal": "a"}}
	require.Empty(t, c.failures())
}

// TestLeast: a comparison of fewer situations than there have to be fails, also if one of the programs had fewer.
func TestLeast(t *testing.T) {
	one, two := map[string]string{"a": "a"}, map[string]string{"a": "a", "b": ""}
	require.Equal(t, []string{"0 situations, fewer than 1"}, Comparison{}.failures())
	require.Equal(t, []string{"1 situations, fewer than 2"}, Comparison{Ours: one, Theirs: one, Least: 2}.failures())
	require.Equal(t, []string{"1 situations, fewer than 2"}, Comparison{Ours: two, Theirs: one, Least: 2}.failures())
	require.Equal(t, []string{"1 situations, fewer than 2"}, Comparison{Ours: one, Theirs: two, Least: 2}.failures())
	require.Empty(t, Comparison{Ours: two, Theirs: two, Least: 2}.failures())
}
