package subpath

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// rounds binds and cleans up the given number of times.
func rounds(m mount.Interface, dir, times string) error {
	n, err := strconv.Atoi(times)
	for range n {
		req := request(dir, "a/b/c")
		req.Create = false
		if _, err = Bind(context.Background(), m, req); err == nil {
			err = Cleanup(context.Background(), m, dir+"/pod", "vol")
		}
		if err != nil {
			return err
		}
	}
	return err
}

// TestCallsOfBindAndCleanup pins the system calls of a bind mount of a directory three
// levels down, and of its cleanup. The mounter makes some 20 of them. The floor is openat2,
// four times mkdir, mount, umount2, and four times rmdir.
func TestCallsOfBindAndCleanup(t *testing.T) {
	if !slices.Contains(mount.Tiers(), mount.TierTreeAttr) {
		mounttest.SkipWithout(t, "mountevents", "an older kernel needs other calls")
	}
	if !mounttest.Namespace(t) {
		return
	}
	s := newSite(t, mount.TierTreeAttr)
	s.fill("vol/a/b/c/")
	const few, many = 10, 60
	count := func(rounds int) map[string]int {
		c := exec.Command("/proc/self/exe")
		c.Env = append(os.Environ(), verbVar+"=rounds", dirVar+"="+s.dir, tierVar+"="+strconv.Itoa(int(s.tier)), timesVar+"="+strconv.Itoa(rounds))
		c.Stderr = os.Stderr
		return mounttest.CountCalls(t, c)
	}
	calls, total := testbed.CallsPerRound(count(few), count(many), many-few)
	assert.LessOrEqual(t, total, 62, "%v", calls)
	assert.Equal(t, 1, calls["umount2"])
}
