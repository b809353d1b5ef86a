package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFold(t *testing.T) {
	for line, want := range map[string]string{
		"":                       "",
		"\n":                     "\n",
		"short\n":                "short\n",
		"exactly 10\n":           "exactly 10\n",
		"one two three four\n":   "one two\n    three\n    four\n",
		"averyverylongword\n":    "averyverylongword\n",
		"averyverylongword x\n":  "averyverylongword\n    x\n",
		"a   b   c   d\n":        "a   b   c\n    d\n",
		"äöüäöü äöüä\n":          "äöüäöü\n    äöüä\n",
		"trailing blank      \n": "trailing\n    blank      \n",
	} {
		require.Equal(t, want, fold(line, 10), line)
	}
	require.Equal(t, 3, strings.Count(fold(strings.Repeat("word ", 50)+"\n", 100), "\n"))
}

// TestWords: untrusted text stays in one line, and a quoted one can be pasted into a shell.
func TestWords(t *testing.T) {
	require.Equal(t, "a b c?[31m", OneLine(" a\n\tb\r\n c\x1b[31m\n"))
	require.Len(t, OneLine(strings.Repeat("x", 10_000)), 803)
	require.Equal(t, `"a\nb"`, Plain("a\nb"))
	require.Equal(t, "/a b", Plain("/a b"))
	require.Equal(t, "/a/b-1.c", Quoted("/a/b-1.c"))
	require.Equal(t, `'it'\''s'`, Quoted("it's"))
}

func TestConsole(t *testing.T) {
	var stdout, stderr strings.Builder
	c := &Console{Program: "program", Prefix: "dry run: ", Stdout: &stdout, Stderr: &stderr}
	c.Printf("a\nb %d\n", 1)
	require.Equal(t, "dry run: a\ndry run: b 1\n", stdout.String())
	require.Equal(t, 0, c.Status())
	c.Fail(errLong)
	require.Equal(t, "dry run: program: two lines\n", stderr.String())
	require.Equal(t, 1, c.Status())

	c = &Console{Stdout: &brokenPipe{}, Stderr: &stderr}
	ctx := c.Listen(t.Context())
	c.Printf("a\n")
	require.Equal(t, 1, c.Status())
	require.Error(t, c.OutputErr())
	require.Error(t, ctx.Err())
}

var errLong = errorString("two\nlines")

type errorString string

func (e errorString) Error() string { return string(e) }
