package input_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/input"
)

func TestRefuse(t *testing.T) {
	err := input.Operation("scrub").Refuse("Every", -time.Second, "negative")
	require.EqualError(t, err, `scrub: Every "-1s": negative`)
	require.Equal(t, input.Error{Operation: "scrub", Field: "Every", Value: "-1s", Reason: "negative"}, *err)
	err = input.Operation("scrub").Refuse("Keep", strings.Repeat("a\n", 1<<20), "too long")
	require.Less(t, len(err.Error()), 400)
}

func TestCheckName(t *testing.T) {
	for name, reason := range map[string]string{
		"a":                                  "",
		"...":                                "",
		strings.Repeat("a", input.MaxName):   "",
		"":                                   "empty",
		".":                                  "not the name of an entry",
		"..":                                 "not the name of an entry",
		"a/b":                                "not one component of a path",
		"a\x00":                              "not one component of a path",
		strings.Repeat("a", input.MaxName+1): "too long",
	} {
		require.Equal(t, reason, input.CheckName(name), "%q", name)
	}
}

func TestQuote(t *testing.T) {
	require.Equal(t, `"a\n"`, input.Quote("a\n"))
	long := input.Quote("head" + strings.Repeat("x", 1000) + "tail")
	require.Less(t, len(long), 200)
	require.True(t, strings.HasPrefix(long, `"head`))
	require.True(t, strings.HasSuffix(long, `tail"`))
}

// TestShorten: a long text loses its middle, and no half of a character is left.
func TestShorten(t *testing.T) {
	short := strings.Repeat("a", 160)
	require.Equal(t, short, input.Shorten(short))
	long := input.Shorten("heads" + strings.Repeat("ä", 1001) + "tail!")
	require.LessOrEqual(t, len(long), 163)
	require.True(t, strings.HasPrefix(long, "heads") && strings.HasSuffix(long, "tail!"))
	require.True(t, utf8.ValidString(long))
}

func TestIsNil(t *testing.T) {
	var none *int
	for _, v := range []any{nil, none, (*input.Error)(nil)} {
		require.True(t, input.IsNil(v))
	}
	for _, v := range []any{new(int), 0, "", struct{}{}, []int(nil)} {
		require.False(t, input.IsNil(v))
	}
}
