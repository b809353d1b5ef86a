package docker

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/dockerserver"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// serveDirectories serves a driver of directories at the socket at which a daemon looks for the driver "dirs".
func serveDirectories(p mounttest.Process) {
	ctx := context.Background()
	youth = 0
	host, err := volume.NewHost(ctx, p.Args[0]+"/root")
	require.NoError(p, err)
	c := localConfig(p.Args[0], mount.New(mount.Config{}))
	c.Name, c.Host = "dirs", host
	listener, err := Listen(ctx, SocketDir+"/dirs.sock")
	require.NoError(p, err)
	require.NoError(p, Serve(ctx, listener, c))
}

// A machine has a daemon and a driver, each a process.
type machine struct {
	*testing.T
	*dockerserver.Server
	dir    string
	driver *exec.Cmd
}

// newMachine starts both. The test must be in the namespaces of dockerserver.Isolate.
func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{T: t, Server: dockerserver.New(t), dir: "/run/driver"}
	for _, dir := range []string{SocketDir, m.dir + "/root", m.dir + "/claims", m.dir + "/shares/a"} {
		require.NoError(t, os.MkdirAll(dir, 0o755))
	}
	m.startDriver()
	m.Start()
	return m
}

func (m *machine) startDriver() {
	m.Helper()
	m.driver = mounttest.Program("serve", m.dir)
	m.driver.Stdout, m.driver.Stderr = os.Stderr, os.Stderr
	require.NoError(m, m.driver.Start())
	require.Eventually(m, func() bool {
		connection, err := net.Dial("unix", SocketDir+"/dirs.sock")
		return err == nil && connection.Close() == nil
	}, 10*time.Second, 10*time.Millisecond)
}

// killDriver kills the driver. Its socket stays.
func (m *machine) killDriver() {
	m.Helper()
	require.NoError(m, m.driver.Process.Kill())
	_ = m.driver.Wait()
}

func (m *machine) restartDriver() {
	m.Helper()
	m.killDriver()
	m.startDriver()
}

// container starts a container with a volume at /data, which sleeps.
func (m *machine) container(name string, flags ...string) {
	m.Helper()
	m.Docker(append(append([]string{"run", "-d", "--network=none", "--name=" + name}, flags...), dockerserver.Image)...)
}

// command returns the arguments that run a command of the shell in a new container.
func command(text string, flags ...string) []string {
	args := append([]string{"run", "--rm", "--network=none", "--entrypoint=/busybox"}, flags...)
	return append(args, dockerserver.Image, "sh", "-c", text)
}

func (m *machine) create(name string, options ...string) {
	m.Helper()
	args := []string{"volume", "create", "-d", "dirs"}
	for _, option := range options {
		args = append(args, "-o", option)
	}
	m.Docker(append(args, name)...)
}

// users requires the number of users of a volume, and whether it is mounted.
func (m *machine) users(want int, name string) {
	m.Helper()
	got := m.Docker("volume", "inspect", "-f", `{{index .Status "users"}}`, name)
	require.Equal(m, fmt.Sprint(want), got)
	require.Equal(m, want > 0, m.isMounted(name))
}

func (m *machine) isMounted(name string) bool {
	m.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(m, err)
	return strings.Contains(string(text), " "+m.dir+"/root/plugins/volumekit.io/docker/dirs/mounts/"+name+" ")
}

// requireEmpty: no volume and no storage is left.
func (m *machine) requireEmpty() {
	m.Helper()
	require.Empty(m, m.Docker("volume", "ls", "-q", "-f", "driver=dirs"))
	found, err := filepath.Glob(m.dir + "/claims/[^.]*")
	require.NoError(m, err)
	require.Empty(m, found)
}

// TestDockerVolumes: what people do with volumes.
func TestDockerVolumes(t *testing.T) {
	if !dockerserver.Isolate(t) {
		return
	}
	m := newMachine(t)
	m.create("data", "mode=0750", "size=1Mi")
	require.Equal(t, "dirs data", m.Docker("volume", "ls", "--format", "{{.Driver}} {{.Name}}"))
	require.Equal(t, "local 1Mi", m.Docker("volume", "inspect", "-f", `{{.Scope}} {{index .Status "size"}}`, "data"))
	m.users(0, "data")

	m.Docker(command("echo hello >/data/file && [ $(/busybox stat -c %a /data) = 750 ]", "-v", "data:/data")...)
	require.Equal(t, "hello", m.Docker(command("/busybox cat /data/file", "-v", "data:/data:ro")...))
	_, err := m.TryDocker(command("echo x >/data/file", "-v", "data:/data:ro")...)
	require.ErrorContains(t, err, "Read-only file system")
	m.users(0, "data")

	m.container("one", "-v", "data:/data")
	m.container("two", "--mount", "type=volume,src=data,dst=/data")
	m.users(2, "data")
	require.Equal(t, "hello", m.Docker("exec", "two", "/busybox", "cat", "/data/file"))
	require.NoError(t, os.WriteFile(m.dir+"/copied", []byte("copied"), 0o600))
	m.Docker("cp", m.dir+"/copied", "one:/data/copied") // mounts with the ID of the container
	m.users(2, "data")
	require.Equal(t, "copied", m.Docker("exec", "two", "/busybox", "cat", "/data/copied"))
	_, err = m.TryDocker("volume", "rm", "data")
	require.ErrorContains(t, err, "volume is in use")
	m.Docker("stop", "-t", "0", "one")
	m.users(1, "data")
	m.Docker("cp", "one:/data/copied", m.dir+"/back")
	m.users(1, "data")
	require.Equal(t, "hello", m.Docker(command("/busybox cat /data/file", "--volumes-from", "two")...))
	m.Docker("start", "one")
	m.users(2, "data")
	m.Docker("rm", "-f", "one", "two")
	m.users(0, "data")

	m.Docker(command("echo x >/data/x", "--mount", "type=volume,volume-driver=dirs,src=more,dst=/data")...)
	m.Docker(command("echo x >/anonymous/x", "--volume-driver=dirs", "-v", "/anonymous")...)
	require.Equal(t, "data\nmore", m.Docker("volume", "ls", "-q", "-f", "driver=dirs"))
	m.create("share", "share="+m.dir+"/shares/a", "ro=true")
	_, err = m.TryDocker(command("echo x >/data/x", "-v", "share:/data")...)
	require.ErrorContains(t, err, "Read-only file system")
	_, err = m.TryDocker("volume", "create", "-d", "dirs", "-o", "share=/etc", "refused")
	require.ErrorContains(t, err, `"/etc"`)
	_, err = m.TryDocker("volume", "create", "-d", "dirs", "-o", "unknown=x", "refused")
	require.ErrorContains(t, err, "unknown")
	m.Docker("volume", "rm", "data")
	m.Docker("volume", "prune", "-f")
	m.Docker("volume", "rm", "-f", "more", "share")
	m.requireEmpty()
	require.DirExists(t, m.dir+"/shares/a")
}

// TestDockerRestarts: users are right after the daemon, the driver or both were stopped or killed, with restart policies
// and with live restore.
func TestDockerRestarts(t *testing.T) {
	if !dockerserver.Isolate(t) {
		return
	}
	m := newMachine(t)
	m.create("data")
	m.container("restarts", "--restart=always", "-v", "data:/data")
	m.container("stays", "-v", "data:/data")
	m.users(2, "data")
	m.Stop()
	require.False(t, m.isMounted("data"))
	m.Start()
	m.waitFor("restarts")
	m.users(1, "data")

	m.Kill()
	require.True(t, m.isMounted("data"))
	m.Start()
	m.waitFor("restarts")
	m.users(1, "data")
	m.Docker("rm", "-f", "restarts", "stays")
	m.users(0, "data")

	m.Stop()
	m.Start("--live-restore")
	m.container("lives", "-v", "data:/data")
	m.Kill()
	m.restartDriver()
	m.Start("--live-restore")
	m.users(1, "data")
	require.NoError(t, os.WriteFile(m.dir+"/copied", nil, 0o600))
	m.Docker("cp", m.dir+"/copied", "lives:/data/copied")
	m.users(1, "data")
	m.Docker("exec", "lives", "/busybox", "ls", "/data/copied")
	_, err := m.TryDocker("volume", "rm", "data")
	require.ErrorContains(t, err, "in use")
	m.Docker("rm", "-f", "lives") // this daemon forgets to unmount
	m.Docker("volume", "rm", "data")
	require.False(t, m.isMounted("data"))
	m.requireEmpty()
}

// waitFor waits for a container that the daemon restarts.
func (m *machine) waitFor(name string) {
	m.Helper()
	require.Eventually(m, func() bool {
		running, err := m.TryDocker("inspect", "-f", "{{.State.Running}}", name)
		return err == nil && running == "true"
	}, 30*time.Second, 50*time.Millisecond)
}

// TestDockerDriverKilled: containers do not notice that the driver was killed, and calls wait for the next one. (A daemon
// does not repeat a call of which it has read a part of the answer: that container does not start.) The volume can be
// used and removed afterwards, also if the daemon has forgotten a user of it.
func TestDockerDriverKilled(t *testing.T) {
	if !dockerserver.Isolate(t) {
		return
	}
	m := newMachine(t)
	m.create("data")
	m.container("one", "-v", "data:/data")
	m.killDriver()
	m.Docker("exec", "one", "/busybox", "sh", "-c", "echo x >/data/file")
	ended := make(chan error, 1)
	go func() {
		_, err := m.TryDocker("rm", "-f", "one")
		ended <- err
	}()
	time.Sleep(time.Second) // the daemon tries again and again
	m.startDriver()
	require.NoError(t, <-ended)
	m.users(0, "data")

	for i := range 20 { // at each moment of a life
		go func() {
			_, err := m.TryDocker(command("echo x >/data/file", "-v", "data:/data")...)
			ended <- err
		}()
		time.Sleep(time.Duration(i) * 20 * time.Millisecond)
		require.NoError(t, m.driver.Process.Signal(syscall.SIGKILL))
		_ = m.driver.Wait()
		m.startDriver()
		if err := <-ended; err != nil {
			t.Logf("killed after %d ms: %v", i*20, err)
			m.Docker(command("echo x >/data/file", "-v", "data:/data")...)
		}
	}
	m.Docker("volume", "rm", "data")
	m.requireEmpty()
}
