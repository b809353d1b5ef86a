package optionlist

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplit(t *testing.T) {
	const label = `context="system_u:object_r:container_file_t:s0:c127,c456"`
	for list, want := range map[string][]string{
		"":                        nil,
		",, ,":                    nil,
		"ro":                      {"ro"},
		" hard, nfsvers=4.1,,ro,": {"hard", "nfsvers=4.1", "ro"},
		label:                     {label},
		"ro," + label + ",noexec": {"ro", label, "noexec"},
		`a="b,c",d="e,f"`:         {`a="b,c"`, `d="e,f"`},
		`"a,b"c,d`:                {`"a,b"c`, "d"},
		`a,b="c,d`:                {"a", `b="c,d`},
		`"`:                       {`"`},
		`a="",b`:                  {`a=""`, "b"},
	} {
		require.Equal(t, want, Split(list), "%q", list)
	}
}

func TestJoinLabels(t *testing.T) {
	for text, want := range map[string][]string{
		"rw,size=1m":                               {"rw", "size=1m"},
		`rw,context="a:b:c:s0:c1,c2,c3",size=1m`:   {"rw", `context="a:b:c:s0:c1,c2,c3"`, "size=1m"},
		`fscontext="a:s0:c1,c2",context="b:c1,c2"`: {`fscontext="a:s0:c1,c2"`, `context="b:c1,c2"`},
		`context=a:b:c:s0,size=1m`:                 {"context=a:b:c:s0", "size=1m"},
		`lowerdir="/a,ro`:                          {`lowerdir="/a`, "ro"}, // a quote is part of another value
		`context="a,b`:                             {`context="a,b`},
		`context=",a"`:                             {`context=",a"`},
		"":                                         {""},
	} {
		require.Equal(t, want, JoinLabels(strings.Split(text, ",")), text)
	}
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "ro", "hard,nfsvers=4.1", " ro ,, rw", "a\x00b,\n", ",,,", `a="b,c",d`, `"a,`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		for _, option := range Split(list) {
			require.NotEmpty(t, option)
			require.Contains(t, list, option)
			require.Equal(t, []string{option}, Split(option))
		}
	})
}
