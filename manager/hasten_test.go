package manager

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What was tried while it was looked is left as that has left it.
func TestHastenWhatStillWaits(t *testing.T) {
	op := operation{verb: setUp, volume: vol, pod: podA}
	seen := attempt{delay{time.Second, time.Unix(1000, 0)}, spot{path: "/a", mounted: true, mount: 7}}
	later := attempt{seen.next(time.Second, time.Hour, time.Unix(1000, 0)), seen.at}
	for name, test := range map[string]struct{ is, then map[operation]attempt }{
		"waits":        {map[operation]attempt{op: seen}, map[operation]attempt{op: {delay{length: time.Second}, seen.at}}},
		"failed again": {map[operation]attempt{op: later}, map[operation]attempt{op: later}},
		"succeeded":    {map[operation]attempt{}, map[operation]attempt{}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &loop{Manager: &Manager{world: newWorld()}}
			l.retry = test.is
			l.hasten([]attemptOf{{op, seen}})
			require.Equal(t, test.then, l.retry)
			require.Equal(t, name == "waits", l.dirty[vol])
		})
	}
}
