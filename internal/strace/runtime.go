package strace

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Go's runtime has a thread, the monitor, that looks around when a timer of the program is
// due, and when none is, after a minute: for goroutines to wake, for how many processors
// there are, by affinity and by the limit of the control group, and whether it is time to
// collect garbage or to give memory back. For the latter it wakes other threads, which
// stop one another by signals. A program that only sleeps makes these calls, and no others.
var (
	ofMonitor = []string{"sched_getaffinity", "pread64"} // and those of all
	ofRuntime = []string{"futex", "nanosleep", "sched_yield", "epoll_pwait", "getpid", "tgkill", "rt_sigreturn"}
)

const (
	// lookingAround is how long the monitor sleeps while no timer is due before.
	lookingAround = time.Minute
	// briefly is how long the runtime's threads may wait for one another.
	briefly = 10 * time.Millisecond
	// most is how many calls one look takes at the very most: while a goroutine runs the
	// monitor makes a hundred in a second.
	most = 1000
)

// ButMonitor returns no calls, and the number of the runtime's calls, if all calls are the
// runtime's own; otherwise it returns all calls. Two conditions make calls the runtime's
// own: one thread is the monitor, which sleeps for at least a minute, so no timer of the
// program was due; and all other threads only make calls to wait for one another, so nothing
// has come from outside.
func (c Calls) ButMonitor() (others Calls, monitor int) {
	monitors, all := 0, 0
	for _, calls := range c {
		isMonitor := slices.ContainsFunc(calls, isMonitors)
		if isMonitor {
			monitors++
		}
		for _, call := range calls {
			if !isRuntimes(call, isMonitor) {
				return c, 0
			}
		}
		all += len(calls)
	}
	if monitors > 1 || monitors == 0 && all > 0 || all > most {
		return c, 0
	}
	return nil, all
}

// isMonitors reports whether only the monitor makes such a call.
func isMonitors(call string) bool {
	return nameOf(call) == ofMonitor[0] || timeout(call) == lookingAround
}

func isRuntimes(call string, isMonitor bool) bool {
	if isMonitor && (isMonitors(call) || slices.Contains(ofMonitor, nameOf(call))) {
		return true
	}
	return slices.Contains(ofRuntime, nameOf(call)) && timeout(call) <= briefly
}

func nameOf(call string) string {
	name, _, _ := strings.Cut(call, "(")
	return name
}

var seconds = regexp.MustCompile(`\{tv_sec=\d+, tv_nsec=\d+\}`)

// timeout is how long a call waits at the most; 0: without an end, or not at all.
func timeout(call string) time.Duration {
	var s, ns int64
	_, err := fmt.Sscanf(seconds.FindString(call), "{tv_sec=%d, tv_nsec=%d}", &s, &ns)
	if err != nil {
		return 0
	}
	return time.Duration(s)*time.Second + time.Duration(ns)
}
