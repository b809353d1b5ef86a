package options

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzOptionsRoundTrip: the options of flags set these flags, and data parses to itself.
func FuzzOptionsRoundTrip(f *testing.F) {
	f.Add("ro,nosuid,size=1m")
	f.Add("rw,relatime,nodiratime,noexec")
	f.Add("strictatime,nosymfollow,,x")
	f.Fuzz(func(t *testing.T, text string) {
		allow := Allow{SUID: true, Dev: true, Context: true}
		o, err := Parse(strings.Split(text, ","), allow)
		if err != nil {
			return
		}
		require.Zero(t, o.Set&o.Clear)
		again, err := Parse(strings.Split(o.Set.String(), ","), allow)
		require.NoError(t, err)
		require.Equal(t, o.Set, again.Set)
		data, err := Parse(o.Data, allow)
		require.NoError(t, err)
		require.Equal(t, o.Data, data.Data)
		require.Zero(t, data.Set|data.Clear)
		require.Equal(t, o.Set, ReadTableFlags(strings.Split(o.Set.String(), ","))&^StrictAtime|o.Set&StrictAtime)
	})
}
