package spec

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/options"
)

func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, s := range []Spec{
		{Target: long},
		{Target: "/t", Source: long},
		{Target: "/t", Source: "/s", List: []string{long}},
		{Target: "/t", Source: "/s", List: []string{"a=1", "a=" + long}},
		{Target: "/t", FSType: "/" + long},
	} {
		err := s.Check(options.Allow{})
		require.Error(t, err)
		require.Less(t, len(err.Error()), 1000)
	}
}

func FuzzSpec(f *testing.F) {
	f.Add("/s", "/t", "", "ro")
	f.Add("tmpfs", "/t", "tmpfs", "size=1m\x00rw")
	f.Add("/s/../x", "/t//.", "", "noatime\x00x-y=z")
	f.Add("", "/", "a b", "=\x00,")
	f.Fuzz(func(t *testing.T, source, target, fsType, list string) {
		s := Spec{Source: source, Target: target, FSType: fsType, List: strings.Split(list, "\x00")}
		err := s.Check(options.Allow{})
		o := s.Options
		if err != nil {
			var input *failure.InputError
			require.ErrorAs(t, err, &input)
			require.Less(t, len(err.Error()), 2000)
			return
		}
		const safe = options.NoSUID | options.NoDev
		require.Equal(t, safe, o.Set&safe)
		require.Zero(t, o.Set&o.Clear)
		require.NotContains(t, target+"/", "/../")
		require.True(t, fsType != "" || len(o.Data) == 0)
		for _, option := range o.Data {
			require.NotContains(t, option, ",")
		}
	})
}
