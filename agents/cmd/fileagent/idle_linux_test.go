package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/strace"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// idlePod is a pod with so many volumes of its own.
func idlePod(name string, volumes int) string {
	var mounts, all strings.Builder
	for i := range volumes {
		fmt.Fprintf(&mounts, "{name: v%d, mountPath: /v%d},", i, i)
		fmt.Fprintf(&all, "  - {name: v%d, emptyDir: {}}\n", i)
	}
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + "}\nspec:\n  containers: [{name: c, volumeMounts: [" +
		strings.TrimSuffix(mounts.String(), ",") + "]}]\n  volumes:\n" + all.String()
}

// TestIdle checks that the agent uses no processor time while nothing changes: no thread
// runs for a nanosecond, so the agent makes no system call. The long test has 10,000
// volumes, lasts a minute, in which a thread of Go's runtime wakes up, and limits the
// memory.
func TestIdle(t *testing.T) {
	testbed.RealTime(t)
	if !mounttest.Namespace(t) {
		return
	}
	const volumes = 10
	const most = 50_000 // kB
	pods, isLong := 5, testbed.Long()
	if isLong {
		pods = 1000
	}
	u := newUser(t, 0)
	for i := range pods {
		u.put(fmt.Sprintf("pod-%d.yaml", i), idlePod(fmt.Sprint("pod-", i), volumes))
	}
	p := u.start(u.flags()...)
	u.waitForOutput(p, fmt.Sprintf("All is as desired: %d volumes of %d pods are up.\n", pods*volumes, pods))
	requireIdle(t, p.Process.Pid)
	if isLong {
		calls, memory := strace.Watch(t, p.Process.Pid, time.Minute), resident(t, p.Process.Pid)
		others, monitor := calls.ButMonitor()
		t.Logf("%d volumes: %d system calls in a minute, and %d of the runtime's own monitor; %d kB are resident",
			pods*volumes, len(others), monitor, memory)
		require.Empty(t, others)
		require.Less(t, memory, most)
	}
	// And it is not dead.
	u.put("more.yaml", idlePod("more", 1))
	u.waitForOutput(p, fmt.Sprintf("All is as desired: %d volumes of %d pods are up.\n", pods*volumes+1, pods+1))
}

// requireIdle waits until nothing has run for a while: the runtime has its own things to
// tidy up first.
func requireIdle(t *testing.T, pid int) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; {
		before := ranFor(t, pid)
		time.Sleep(3 * time.Second)
		if after := ranFor(t, pid); before == after {
			return
		}
		require.True(t, time.Now().Before(deadline), "it never rests")
	}
}

// ranFor returns how long each thread of a process has had the processor, and how often.
func ranFor(t *testing.T, pid int) string {
	t.Helper()
	tasks, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, tasks)
	var all strings.Builder
	for _, task := range tasks {
		switches, err := os.ReadFile(filepath.Join(task, "status"))
		if err != nil {
			return "ended at " + time.Now().String() // a thread, meanwhile
		}
		all.WriteString(task)
		for line := range strings.Lines(string(switches)) {
			if strings.Contains(line, "ctxt_switches") {
				all.WriteString(" " + strings.TrimSpace(line))
			}
		}
		times, err := os.ReadFile(filepath.Join(task, "schedstat"))
		if err == nil { // not all kernels have it
			all.WriteString(" " + string(times))
		}
	}
	return all.String()
}

// resident returns how much memory a process has, in kB.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(t, err)
	return n
}
