package processgroup_test

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/processgroup"
	"golang.org/x/sys/unix"
)

// TestRun: the group ends with the context and with a failure; after a success the rest lives on.
func TestRun(t *testing.T) {
	for name, test := range map[string]struct {
		exit     string // the last command of the program
		cancel   bool
		livesOn  bool
		wantText string
	}{
		"success": {exit: "exit 0", livesOn: true},
		"failure": {exit: "exit 3", wantText: "exit status 3"},
		"context": {exit: "wait", cancel: true, wantText: "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			output := &notified{begun: make(chan struct{})}
			cmd := exec.Command("/bin/sh", "-c", "sleep 1000 <&- >&- 2>&- & echo $!; "+test.exit)
			cmd.Stdout = output
			cmd.WaitDelay = time.Minute
			if test.cancel {
				go func() { <-output.begun; cancel() }()
			}
			abandoned := false
			err := processgroup.Run(ctx, cmd, func() { abandoned = true })
			require.Equal(t, test.cancel, abandoned)
			if test.wantText == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, test.wantText)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(output.text))
			require.NoError(t, err)
			if test.livesOn {
				require.NoError(t, unix.Kill(pid, unix.SIGKILL))
				return
			}
			for unix.Kill(pid, 0) == nil && !isZombie(t, pid) {
				time.Sleep(time.Millisecond)
			}
		})
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, processgroup.Run(ended, exec.Command("/nonexistent"), nil), context.Canceled)
	require.ErrorContains(t, processgroup.Run(t.Context(), exec.Command("/nonexistent"), nil), "no such file")
}

// notified closes begun after the first output.
type notified struct {
	text  string
	begun chan struct{}
}

func (n *notified) Write(p []byte) (int, error) {
	if n.text == "" {
		close(n.begun)
	}
	n.text += string(p)
	return len(p), nil
}

// isZombie reports whether a process has ended: its parent may never reap it.
func isZombie(t *testing.T, pid int) bool {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	return strings.Contains(string(stat), ") Z ")
}
