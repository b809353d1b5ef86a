package cli

import (
	"flag"
	"path/filepath"
	"strings"
	"testing"

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
	require.ErrorContains(t, Parse(newSet(), []string{"-paths", "a,"}, &help, ""), "an empty one")
	require.NoError(t, Parse(newSet(), []string{"-list", "a,b", "-list", "c", "-paths", "x"}, &help, ""))
	require.Equal(t, "a,b,c", list.String())
	require.Equal(t, paths[0], paths.String())
	require.True(t, filepath.IsAbs(paths[0]))
}

func TestOneLine(t *testing.T) {
	require.Equal(t, "a b ?[2J", OneLine("a\n\tb \x1b[2J\n"))
	long := OneLine(strings.Repeat("\u00e9", 1000))
	require.Less(t, len(long), 1000)
	require.True(t, strings.HasSuffix(long, "\u00e9..."))
}
