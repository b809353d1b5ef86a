package subpath

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// TestKilled: after the death of the process at any call, binding again and cleaning up
// give the same result, and the volume's content stays.
func TestKilled(t *testing.T) {
	for _, verb := range []string{"bind", "cleanup"} {
		t.Run(verb, func(t *testing.T) {
			onEachTier(t, func(s *site) { s.testKilled(verb) })
		})
	}
}

func (s *site) testKilled(verb string) {
	program := func() *exec.Cmd {
		s.cleanup()
		require.NoError(s, os.RemoveAll(s.dir+"/vol/new"))
		s.fill("vol/precious")
		if verb == "cleanup" {
			s.bind(request(s.dir, "new/sub/path"))
		}
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), verbVar+"="+verb, dirVar+"="+s.dir, fmt.Sprintf("%s=%d", tierVar, int(s.tier)))
		c.Stderr = os.Stderr
		return c
	}
	bindFirst := false
	kills := mounttest.KillAtEachCall(s.T, program, func(place string) {
		if bindFirst = !bindFirst; bindFirst {
			target := s.bind(request(s.dir, "new/sub/path"))
			s.same(target, s.dir+"/vol/new/sub/path")
			require.Len(s, s.mounts(), 1, place)
			info, err := os.Stat(target)
			require.NoError(s, err)
			require.EqualValues(s, 0o777, info.Mode().Perm(), place)
		}
		s.cleanup()
		require.FileExists(s, s.dir+"/vol/precious", place)
		require.FileExists(s, s.dir+"/outside/canary", place)
	})
	require.Greater(s, kills, 1)
	s.Log(kills, "kills")
}
