// Package endstates compares the end states of situations that two programs have worked in, each on its own. Only tests
// import it.
package endstates

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// prefixVariable is the variable with the beginning of the names of files with all end states.
const prefixVariable = "VOLUMEKIT_SITUATIONS"

// A Comparison has the end states by the names of the situations.
type Comparison struct {
	Ours, Theirs map[string]string
	Peer         string            // the name of their program
	Differences  map[string]string // the reasons, by the situations whose end states differ
	Least        int               // the least number of situations
}

// Require fails for end states that differ without an explanation, for explanations without a difference, for too few
// situations, and if the end states of the explained situations are not those in testdata. With the variable
// VOLUMEKIT_SITUATIONS it writes all end states to a file whose name begins with the variable, and the explained ones
// to testdata.
func (c Comparison) Require(t *testing.T) {
	t.Helper()
	expected := filepath.Join("testdata", t.Name()+".txt")
	explained := c.text(func(name string) bool { return c.Differences[name] != "" })
	if prefix := os.Getenv(prefixVariable); prefix != "" {
		all := c.text(func(string) bool { return true })
		require.NoError(t, os.WriteFile(prefix+t.Name(), []byte(all), 0o600))
		require.NoError(t, os.WriteFile(expected, []byte(explained), 0o600))
	}
	for _, failure := range c.failures() {
		t.Error(failure)
	}
	text, err := os.ReadFile(expected)
	require.NoError(t, err)
	assert.Equal(t, string(text), explained, "the end states of the explained differences; VOLUMEKIT_SITUATIONS writes them anew")
	t.Logf("%d situations, %d explained differences", len(c.Ours), len(c.Differences))
}

// failures returns the reasons why the end states are not as they have to be.
func (c Comparison) failures() (all []string) {
	if n := min(len(c.Ours), len(c.Theirs)); n < max(c.Least, 1) {
		all = append(all, fmt.Sprintf("%d situations, fewer than %d", n, max(c.Least, 1)))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Differences)) {
		if c.Theirs[name] == c.Ours[name] {
			all = append(all, fmt.Sprintf("%s: no difference any more, or no situation: %s", name, c.Differences[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Ours)) {
		if c.Theirs[name] != c.Ours[name] && c.Differences[name] == "" {
			all = append(all, fmt.Sprintf("%s\n-- %s:\n%s\n-- ours:\n%s", name, c.Peer, c.Theirs[name], c.Ours[name]))
		}
	}
	return all
}

// text returns the end states of the situations that are chosen.
func (c Comparison) text(isChosen func(name string) bool) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c.Ours)) {
		if !isChosen(name) {
			continue
		}
		fmt.Fprintf(&text, "# %s\n%s", name, c.Ours[name])
		if c.Theirs[name] != c.Ours[name] {
			fmt.Fprintf(&text, "## %s\n%s", c.Peer, c.Theirs[name])
		}
	}
	return text.String()
}
