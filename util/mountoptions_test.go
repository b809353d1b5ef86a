package util

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJoinMountOptions(t *testing.T) {
	for name, test := range map[string]struct{ user, system, want []string }{
		"none":        {nil, nil, nil},
		"user":        {[]string{"b", "a"}, nil, []string{"a", "b"}},
		"system":      {nil, []string{"a"}, []string{"a"}},
		"both":        {[]string{"hard", "ro"}, []string{"ro", "bg"}, []string{"bg", "hard", "ro"}},
		"not decided": {[]string{"rw"}, []string{"ro"}, []string{"ro", "rw"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, test.want, JoinMountOptions(test.user, test.system))
		})
	}
}

func TestJoinMountOptionsLeavesItsArguments(t *testing.T) {
	user, system := []string{"b", "a", "a"}, []string{"d", "c"}
	JoinMountOptions(user, system)
	require.Equal(t, []string{"b", "a", "a"}, user)
	require.Equal(t, []string{"d", "c"}, system)
}
