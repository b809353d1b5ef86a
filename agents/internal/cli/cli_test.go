package cli

import (
	"context"
	"flag"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	var list List
	var paths Paths
	newSet := func() *flag.FlagSet {
		set := flag.NewFlagSet("program", flag.ContinueOnError)
		set.Var(&list, "list", "some `THINGS`")
		set.Var(&paths, "paths", "some `PATHS`")
		return set
	}
	var help strings.Builder
	require.ErrorIs(t, Parse(newSet(), []string{"-help"}, &help, "program does it."), flag.ErrHelp)
	require.Contains(t, help.String(), "program does it.\n  -list THINGS\n")
	require.ErrorContains(t, Parse(newSet(), []string{"x"}, &help, ""), `unexpected argument "x"`)
	require.ErrorContains(t, Parse(newSet(), []string{"-paths", "a,"}, &help, ""), "an element of the list is empty")
	require.ErrorIs(t, Parse(newSet(), []string{"-help"}, &brokenPipe{}, ""), syscall.EPIPE)
	name := newSet()
	name.String("name", "", "a `NAME`")
	require.EqualError(t, Parse(name, []string{"-name", ""}, &help, ""), "flag -name needs a value that is not empty")
	require.NoError(t, Parse(newSet(), []string{"-list", "a,b", "-list", "c", "-paths", "x"}, &help, ""))
	require.Equal(t, "a,b,c", list.String())
	require.Equal(t, paths[0], paths.String())
	require.True(t, filepath.IsAbs(paths[0]))
}

// TestHelpWidth: the usage fits into 100 columns.
func TestHelpWidth(t *testing.T) {
	set := flag.NewFlagSet("program", flag.ContinueOnError)
	set.String("x", "", "the `NAME`"+strings.Repeat(" of a thing", 20))
	var help strings.Builder
	require.ErrorIs(t, Parse(set, []string{"-help"}, &help, "program does it."), flag.ErrHelp)
	lines := strings.Split(strings.TrimSuffix(help.String(), "\n"), "\n")
	require.Len(t, lines, 5)
	for _, line := range lines {
		require.LessOrEqual(t, len(line), width)
	}
	require.Equal(t, []string{"program does it.", "  -x NAME"}, lines[:2])
	for _, line := range lines[2:] {
		require.Regexp(t, "^ {8}[a-z]", line)
	}
}

func TestDuration(t *testing.T) {
	wait := Duration(time.Minute)
	newSet := func() *flag.FlagSet {
		set := flag.NewFlagSet("program", flag.ContinueOnError)
		set.Var(&wait, "wait", DurationUsage("wait so long"))
		return set
	}
	var help strings.Builder
	require.ErrorIs(t, Parse(newSet(), []string{"-h"}, &help, ""), flag.ErrHelp)
	require.Contains(t, help.String(), "  -wait TIME\n        wait so long: a TIME such as 90s, 5m or 1h30m (default 1m0s)\n")
	for _, bad := range []string{"", "5", "long"} {
		require.ErrorContains(t, Parse(newSet(), []string{"-wait", bad}, &help, ""), "such as 90s, 5m or 1h30m")
	}
	require.NoError(t, Parse(newSet(), []string{"-wait", "5s"}, &help, ""))
	require.Equal(t, Duration(5*time.Second), wait)
}

// brokenPipe takes so many bytes.
type brokenPipe struct{ left int }

func (b *brokenPipe) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

// TestOutput: the first write that fails ends the context, and is the error for good.
func TestOutput(t *testing.T) {
	to := &brokenPipe{left: 1}
	ctx, out := NewOutput(t.Context(), to)
	_, err := out.Write([]byte("a"))
	require.NoError(t, err)
	require.NoError(t, out.Err())
	require.NoError(t, ctx.Err())
	for range 2 {
		_, err = out.Write([]byte("b"))
		require.ErrorIs(t, err, syscall.EPIPE)
		require.ErrorIs(t, out.Err(), syscall.EPIPE)
		require.ErrorIs(t, context.Cause(ctx), syscall.EPIPE)
	}
	require.Equal(t, -1, to.left, "nothing more is written")
	require.Same(t, to, out.Unwrap())

	ctx, out = NewOutput(t.Context(), io.Discard)
	out.Close()
	require.Error(t, ctx.Err())
	require.NoError(t, out.Err())
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a b ?[2J", OneLine("a\n\tb \x1b[2J\n"))
	long := OneLine(strings.Repeat("\u00e9", 1000))
	require.Less(t, len(long), 1000)
	require.True(t, strings.HasSuffix(long, "\u00e9..."))
}
