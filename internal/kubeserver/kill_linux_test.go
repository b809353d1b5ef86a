package kubeserver_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/kubeserver"
)

// victimVariable is set in the environment of the test program that TestKubeKilled kills.
const victimVariable = "VOLUMEKIT_KUBE_VICTIM"

// TestKubeVictim starts a server, writes the IDs of its processes and waits for its end.
func TestKubeVictim(t *testing.T) {
	if os.Getenv(victimVariable) == "" {
		return
	}
	kubeserver.Start(t)
	threads, err := filepath.Glob("/proc/self/task/*/children")
	require.NoError(t, err)
	var children []string
	for _, file := range threads {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		children = append(children, strings.Fields(string(text))...)
	}
	fmt.Println("children", strings.Join(children, " "))
	select {}
}

// TestKubeKilled: the API server and etcd end with a test program that is killed.
func TestKubeKilled(t *testing.T) {
	own := kubeserver.Start(t) // at the same time
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestKubeVictim$", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), victimVariable+"=yes", "TMPDIR="+t.TempDir())
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	var processes []string
	for lines := bufio.NewScanner(output); processes == nil && lines.Scan(); {
		if list, ok := strings.CutPrefix(lines.Text(), "children "); ok {
			processes = strings.Fields(list)
		}
	}
	require.Len(t, processes, 2, "etcd and kube-apiserver")
	for _, process := range processes {
		require.True(t, runs(process))
	}
	require.NoError(t, cmd.Process.Kill())
	require.Eventually(t, func() bool { return !runs(processes[0]) && !runs(processes[1]) }, time.Minute, 10*time.Millisecond)
	newClient(t, own).call("GET", "/readyz", nil, nil)
}

// runs reports whether a process has not ended. One that its parent has not reaped has.
func runs(process string) bool {
	stat, err := os.ReadFile("/proc/" + process + "/stat")
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}
