package main

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/dockerserver"
	"github.com/volumekit/volumekit/internal/kubeserver"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){
		programName: func(p mounttest.Process) { os.Exit(run(context.Background(), p.Args, os.Stdout, os.Stderr)) },
	})
}

// build builds the program in a directory, as doc.go says.
func build(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", dir+"/", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", output)
}

// inContainer returns the arguments that run a command of the shell in a new container with a volume at /data.
func inContainer(volume, text string) []string {
	return []string{"run", "--rm", "--network=none", "--entrypoint=/busybox", "-v", volume + ":/data", dockerserver.Image, "sh", "-c", text}
}

// requireLife creates a volume, uses it in containers while the program is killed, and removes it. restart kills the
// program, and returns when a new one serves.
func requireLife(t *testing.T, s *dockerserver.Server, driver string, restart func()) {
	t.Helper()
	users := func() string { return s.Docker("volume", "inspect", "-f", `{{index .Status "users"}}`, "data") }
	s.Docker("volume", "create", "-d", driver, "-o", "mode=0750", "-o", "uid=1000", "data")
	s.Docker(inContainer("data", "echo hello >/data/file && [ $(/busybox stat -c %a:%u /data) = 750:1000 ]")...)
	require.Equal(t, "hello", s.Docker(inContainer("data", "/busybox cat /data/file")...))
	require.Equal(t, "0", users())

	s.Docker("run", "-d", "--network=none", "--name=one", "-v", "data:/data", dockerserver.Image)
	require.Equal(t, "1", users())
	restart()
	require.Equal(t, "1", users())
	require.Equal(t, "hello", s.Docker("exec", "one", "/busybox", "cat", "/data/file"))
	require.NoError(t, os.WriteFile("/run/copied", nil, 0o600))
	s.Docker("cp", "/run/copied", "one:/data/copied") // mounts with the ID of the container
	require.Equal(t, "1", users())
	s.Docker(inContainer("data", "echo more >/data/more")...)
	require.Equal(t, "more", s.Docker("exec", "one", "/busybox", "cat", "/data/more"))
	_, err := s.TryDocker("volume", "rm", "data")
	require.ErrorContains(t, err, "in use")
	s.Docker("rm", "-f", "one")
	require.Equal(t, "0", users())

	// After its end a daemon mounts for a container that starts again, without an unmount in between. The program sees
	// that no process has the volume.
	s.Docker("run", "-d", "--network=none", "--restart=always", "--name=two", "-v", "data:/data", dockerserver.Image)
	s.Kill()
	s.Start()
	require.Eventually(t, func() bool {
		running, err := s.TryDocker("inspect", "-f", "{{.State.Running}}", "two")
		return err == nil && running == "true"
	}, 30*time.Second, 50*time.Millisecond)
	require.Equal(t, "1", users())
	s.Docker("rm", "-f", "two")
	require.Equal(t, "0", users())
	s.Docker("volume", "rm", "data")
	require.Empty(t, s.Docker("volume", "ls", "-q"))
}

// processes returns the processes of the program.
func processes(t *testing.T) (found []string) {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/comm")
	require.NoError(t, err)
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.TrimSpace(string(text)) == programName {
			found = append(found, filepath.Base(filepath.Dir(name)))
		}
	}
	return found
}

// TestDockerManagedPlugin: a daemon runs the program as the managed plugin of config.json, and starts it again after a kill.
func TestDockerManagedPlugin(t *testing.T) {
	if !dockerserver.Isolate(t) {
		return
	}
	s := dockerserver.New(t)
	s.Start()
	build(t, "/run/plugin/rootfs")
	require.NoError(t, os.Mkdir("/run/plugin/rootfs/volumes", 0o700))
	text, err := os.ReadFile("config.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("/run/plugin/config.json", text, 0o600))
	s.Docker("plugin", "create", "volumekit", "/run/plugin")
	s.Docker("plugin", "set", "volumekit", "args=-dir=/volumes")
	s.Docker("plugin", "enable", "volumekit")
	requireLife(t, s, "volumekit", func() {
		before := processes(t)
		require.Len(t, before, 1)
		pid, err := strconv.Atoi(before[0])
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		require.Eventually(t, func() bool {
			now := processes(t)
			_, err := s.TryDocker("volume", "inspect", "data")
			return err == nil && len(now) == 1 && now[0] != before[0]
		}, 30*time.Second, 50*time.Millisecond)
	})
	s.Docker("plugin", "disable", "volumekit")
	s.Docker("plugin", "rm", "volumekit")
}

// rights returns the arguments of setpriv(1) for the rights of the unit.
func rights(t *testing.T) []string {
	t.Helper()
	bounding := "--bounding-set=-all"
	for capability := range strings.FieldsSeq(unitValue(t, "CapabilityBoundingSet")) {
		bounding += ",+" + strings.ToLower(strings.TrimPrefix(capability, "CAP_"))
	}
	return []string{"--no-new-privs", bounding}
}

// TestDockerService: the program serves with the flags and the capabilities of the unit.
func TestDockerService(t *testing.T) {
	if !dockerserver.Isolate(t) {
		return
	}
	s := dockerserver.New(t)
	build(t, "/run/service")
	require.NoError(t, os.Mkdir("/run/service/volumes", 0o700))
	var process *kubeserver.Process
	start := func() {
		var err error
		process, err = kubeserver.StartProcess("/run/service", "setpriv", append(rights(t),
			"/run/service/"+programName, "-dir=/run/service/volumes", "-state=/run/service/state")...)
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			connection, err := net.Dial("unix", "/run/docker/plugins/volumekit.sock")
			return err == nil && connection.Close() == nil
		}, 10*time.Second, 10*time.Millisecond, "%s", process.LastMessages())
	}
	start()
	s.Start()
	requireLife(t, s, "volumekit", func() {
		process.Kill()
		start()
	})
	process.Terminate()
}
