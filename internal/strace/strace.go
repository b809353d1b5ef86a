// Package strace counts the system calls of a process that should make none.
package strace

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// Calls are the system calls that each thread has begun, as strace shows them.
type Calls map[int][]string

// settling is how long it takes until what strace has interrupted sleeps again.
const settling = 3 * time.Second

// Watch watches a process for so long, with all its threads. Calls in which they sleep
// meanwhile have begun before, and do not count. Where there is no strace(1), or it may
// not trace, the test is skipped: it needs "strace".
func Watch(t testing.TB, pid int, long time.Duration) Calls {
	t.Helper()
	output := filepath.Join(t.TempDir(), "strace")
	cmd := exec.Command("strace", "-f", "-qq", "-ttt", "-o", output, "-p", strconv.Itoa(pid))
	var says strings.Builder
	cmd.Stderr = &says
	if err := cmd.Start(); err != nil {
		mounttest.SkipWithout(t, "strace", err)
	}
	time.Sleep(settling)
	begin := time.Now()
	time.Sleep(long)
	end := time.Now()
	stop(t, cmd)
	text, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 { // it names at least the calls that it has interrupted
		mounttest.SkipWithout(t, "strace", says.String())
	}
	calls, err := parse(string(text), begin, end)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func stop(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	err := cmd.Process.Signal(os.Interrupt)
	if err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	err = cmd.Wait()
	exit := (*exec.ExitError)(nil)
	if err == nil || !errors.As(err, &exit) {
		return
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); !ok || !status.Signaled() { // it ends as it was told to
		t.Logf("strace: %v", err)
	}
}

// parse reads "1234 1600000000.123456 futex(0xc000..." lines, and passes over those that
// end a call which another line has begun.
func parse(text string, begin, end time.Time) (Calls, error) {
	calls := Calls{}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		thread, err := strconv.Atoi(fields[0])
		if err != nil {
			return nil, fmt.Errorf("strace: %q: %w", line, err)
		}
		at, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			return nil, fmt.Errorf("strace: %q: %w", line, err)
		}
		when := time.UnixMicro(int64(at * 1e6))
		isCall := strings.Contains(fields[2], "(")
		if isCall && !when.Before(begin) && when.Before(end) {
			calls[thread] = append(calls[thread], strings.Join(fields[2:], " "))
		}
	}
	return calls, nil
}
