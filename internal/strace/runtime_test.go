package strace

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// look holds the calls of the runtime's monitor in a program that only sleeps; woken, the
// calls of a thread that the monitor wakes.
var (
	look = []string{
		"sched_getaffinity(0, 8192, [0 1]) = 32",
		`pread64(3, "-1\n", 64, 0) = 3`,
		"futex(0x67f02b1d160, FUTEX_WAKE_PRIVATE, 1 <unfinished ...>",
		"nanosleep({tv_sec=0, tv_nsec=20000}, <unfinished ...>",
		"futex(0x62d060, FUTEX_WAIT_PRIVATE, 0, {tv_sec=60, tv_nsec=0}) = -1 ETIMEDOUT (Connection timed out)",
	}
	woken = []string{
		"sched_yield( <unfinished ...>",
		"epoll_pwait(7, [], 128, 0, NULL, 0) = 0",
		"futex(0x62d078, FUTEX_WAIT_PRIVATE, 0, {tv_sec=0, tv_nsec=100000} <unfinished ...>",
		"tgkill(3360, 3368, SIGURG) = 0",
		"futex(0x67f02b1d160, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>",
	}
)

func TestButMonitor(t *testing.T) {
	for name, test := range map[string]struct {
		calls   Calls
		monitor int // how many are its and those of whom it wakes; -1: they are not the runtime's
	}{
		"none":                     {Calls{}, 0},
		"the monitor":              {Calls{2: look}, 5},
		"its look has not ended":   {Calls{2: look[:3]}, 3},
		"its look had begun":       {Calls{2: look[3:]}, 2},
		"and one that it wakes":    {Calls{2: look, 3: woken}, 10},
		"one that nobody has":      {Calls{3: woken}, -1},
		"a second monitor":         {Calls{2: look, 3: look}, -1},
		"a timer":                  {Calls{2: with(look, "futex(0x62d060, FUTEX_WAIT_PRIVATE, 0, {tv_sec=0, tv_nsec=999000000}) = -1 ETIMEDOUT")}, -1},
		"a timer of a minute":      {Calls{2: with(look, "futex(0x62d060, FUTEX_WAIT_PRIVATE, 0, {tv_sec=59, tv_nsec=999000000}) = -1 ETIMEDOUT")}, -1},
		"a look at a file":         {Calls{2: with(look, `openat(AT_FDCWD, "/etc", O_RDONLY) = 4`)}, -1},
		"something from outside":   {Calls{2: look, 3: with(woken, `read(5, "x", 1) = 1`)}, -1},
		"one that reads":           {Calls{3: {`pread64(9, "x", 64, 0) = 1`}}, -1},
		"another that reads":       {Calls{2: look, 3: append(with(woken), "pread64(9, \"x\", 64, 0) = 1")}, -1},
		"a goroutine that runs on": {Calls{2: slices.Repeat(look, 500)}, -1},
	} {
		others, monitor := test.calls.ButMonitor()
		if test.monitor < 0 {
			require.Equal(t, test.calls, others, name)
			continue
		}
		require.Empty(t, others, name)
		require.Equal(t, test.monitor, monitor, name)
	}
}

func with(calls []string, more ...string) []string { return append(slices.Clone(calls), more...) }
