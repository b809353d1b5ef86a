package options

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
)

func TestQuotedLabel(t *testing.T) {
	allow := Allow{Context: true}
	for _, key := range []string{"context", "fscontext", "defcontext", "rootcontext"} {
		option := key + `="system_u:object_r:container_file_t:s0:c127,c456"`
		o, err := Parse([]string{option, "size=1m"}, allow)
		require.NoError(t, err)
		require.Equal(t, []string{option, "size=1m"}, o.Data)
		_, err = Parse([]string{option}, Allow{})
		require.ErrorContains(t, err, "mount.Config.Allow.Context")
	}
	// Commas remain refused wherever a part could become an option of its own for mount(2).
	for _, option := range []string{
		`context=a:s0:c1,c2`, `context="a:s0:c1,c2`, `context=a:s0:c1,c2"`, `context="a,b=c"`, `context="a","b"`,
		`context="a,b"c`, `context="a,` + "\n" + `"`, `context="a,b"` + "\n", `context="a, b"`, `lowerdir="/a,/b"`, `"a,b"`,
	} {
		_, err := Parse([]string{option}, allow)
		var refused *failure.InputError
		require.ErrorAs(t, err, &refused, option)
		require.Equal(t, "Options[0]", refused.Field)
	}
}

func TestUnquote(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "a": "a", `"a"`: "a", `"a,b"`: "a,b", `""`: "", `"`: `"`, `"a`: `"a`, `a"`: `a"`, `""a""`: `"a"`,
	} {
		require.Equal(t, want, Unquote(value), "%q", value)
	}
}
