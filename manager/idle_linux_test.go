package manager_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/strace"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
	v1 "k8s.io/api/core/v1"
)

// idleVar makes the test's binary a program that keeps so many pods up.
const idleVar = "MANAGER_TEST_IDLE_PODS"

func TestMain(m *testing.M) {
	if pods, err := strconv.Atoi(os.Getenv(idleVar)); err == nil {
		if err := keepPodsUp(pods); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	mounttest.Main(m, map[string]func(mounttest.Process){"pods": podsProgram, "foreign mounts": foreignMountsProgram})
}

// keepPodsUp prints "up" when the volumes of all pods are up. For each line of standard input it
// then adds a pod and prints "up" again. To use little memory it collects garbage often, and
// returns the memory of the initial set-ups to the system once.
func keepPodsUp(pods int) error {
	runtime.MemProfileRate = 0 // as in a program that links no profiler
	debug.SetGCPercent(25)
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	n, err := newRealNode(dir)
	if err != nil {
		return err
	}
	stop := n.run(context.Background())
	if err := n.up(context.Background(), idlePods(n, 0, pods)...); err != nil {
		return err
	}
	time.Sleep(2 * time.Second) // for the last check of the mounts
	debug.FreeOSMemory()
	fmt.Println("up")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); pods++ {
		if err := n.up(context.Background(), idlePods(n, pods, pods+1)...); err != nil {
			return err
		}
		fmt.Println("up")
	}
	return stop()
}

// idlePods returns pods with three mounts each.
func idlePods(n *realNode, from, to int) (pods []*v1.Pod) {
	for i := from; i < to; i++ {
		pods = append(pods, n.pod(i, "memory", "seen", "shared"))
	}
	return pods
}

// TestIdleVolumes: 10,000 mounted volumes without changes cost no system call in a minute, and less
// than 50 MB. The calls of the Go runtime's monitor thread are counted apart. The garbage collection
// of every second minute does not fall into the measured one.
func TestIdleVolumes(t *testing.T) {
	testbed.RealTime(t)
	if os.Getenv("VOLUMEKIT_LONG") == "" {
		t.Skip("it takes minutes: VOLUMEKIT_LONG=1")
	}
	if !mounttest.RootNamespace(t) {
		return
	}
	const pods, most = 3334, 50_000 // kB
	p := startIdle(t, pods)
	p.requireUp()
	require.Equal(t, 3*pods, p.mounts())
	calls, memory := strace.Watch(t, p.Process.Pid, time.Minute), p.resident()
	others, monitor := calls.ButMonitor()
	t.Logf("%d volumes: %d system calls in a minute, and %d of the runtime's own monitor; %d kB are resident",
		3*pods, len(others), monitor, memory)
	require.Empty(t, others)
	require.Less(t, memory, most)
	// The manager still works.
	_, err := p.stdin.WriteString("one more\n")
	require.NoError(t, err)
	p.requireUp()
	require.Equal(t, 3*(pods+1), p.mounts())
}

// An idleProgram runs.
type idleProgram struct {
	*testing.T
	*exec.Cmd
	dir   string
	stdin *os.File
	lines chan string
}

func startIdle(t *testing.T, pods int) *idleProgram {
	t.Helper()
	p := &idleProgram{T: t, Cmd: exec.Command("/proc/self/exe"), dir: newTmpfsDir(t), lines: make(chan string)}
	p.Cmd.Dir, p.Cmd.Env, p.Cmd.Stderr = p.dir, append(os.Environ(), idleVar+"="+strconv.Itoa(pods)), os.Stderr
	stdin, mine, err := os.Pipe()
	require.NoError(t, err)
	p.Cmd.Stdin, p.stdin = stdin, mine
	stdout, err := p.Cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.Start())
	require.NoError(t, stdin.Close())
	go func() {
		defer close(p.lines)
		for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
			p.lines <- scanner.Text()
		}
	}()
	t.Cleanup(func() {
		_ = p.Process.Kill()
		for range p.lines {
		}
		_ = p.Wait()
		_ = mine.Close()
	})
	return p
}

func (p *idleProgram) requireUp() {
	p.T.Helper()
	select {
	case line := <-p.lines:
		require.Equal(p, "up", line)
	case <-time.After(10 * time.Minute):
		p.T.Fatal("the pods do not come up")
	}
}

// mounts counts those of the pods.
func (p *idleProgram) mounts() int {
	p.T.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(p, err)
	return strings.Count(string(table), " "+p.dir+"/root/pods/")
}

// resident returns how much memory the program has, in kB.
func (p *idleProgram) resident() int {
	p.T.Helper()
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.Process.Pid), "status"))
	require.NoError(p, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	n, err := strconv.Atoi(strings.Fields(rest)[0])
	require.NoError(p, err)
	return n
}
