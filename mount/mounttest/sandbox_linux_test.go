package mounttest_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) {
	mounttest.Main(m, map[string]func(mounttest.Process){"sandbox": sandboxProgram})
}

// noSandbox is the exit status of sandboxProgram without a sandbox.
const noSandbox = 4

// sandboxProgram mounts in a sandbox, repeats its standard input, and ends as its argument says.
func sandboxProgram(p mounttest.Process) {
	dir, err := mounttest.Sandbox()
	if err != nil {
		fmt.Println(err)
		os.Exit(noSandbox)
	}
	left, err := os.ReadDir(dir)
	require.NoError(p, err)
	require.Empty(p, left)
	require.True(p, filepath.IsAbs(dir))
	require.NoError(p, os.WriteFile(dir+"/file", nil, 0o600))
	require.NoError(p, os.Mkdir(dir+"/on", 0o700))
	require.NoError(p, unix.Mount("tmpfs", dir+"/on", "tmpfs", 0, ""))
	again, err := mounttest.Sandbox()
	require.NoError(p, err)
	require.Equal(p, dir, again)
	require.FileExists(p, again+"/file")
	require.Empty(p, os.Getenv("MOUNTTEST_SANDBOX"))
	input, err := io.ReadAll(os.Stdin)
	require.NoError(p, err)
	_, err = unix.FcntlInt(3, unix.F_GETFD, 0)
	fmt.Printf("%s by %d, descriptor 3: %v\n", input, os.Geteuid(), err)
	switch p.Args[0] {
	case "kill":
		require.NoError(p, unix.Kill(os.Getpid(), unix.SIGKILL))
	case "wait":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
		fmt.Println("waits")
		fmt.Println(<-signals)
	}
	os.Exit(len(p.Args[0]))
}

// sandbox returns the command of sandboxProgram, whose temporary directory must be empty in the end.
func sandbox(t *testing.T, how string) *exec.Cmd {
	t.Helper()
	if err := mounttest.Command("/proc/self/exe", "-test.run=^$").Run(); err != nil {
		mounttest.SkipWithout(t, "userns", err)
	}
	tmp := t.TempDir()
	t.Cleanup(func() {
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	cmd := mounttest.Program("sandbox", how)
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	return cmd
}

// TestSandbox: the program goes on in a namespace with its input and output, and ends with its status.
func TestSandbox(t *testing.T) {
	t.Parallel()
	cmd := sandbox(t, "exit")
	cmd.Stdin = strings.NewReader("input")
	output, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, len("exit"), exit.ExitCode())
	require.Equal(t, "input by 0, descriptor 3: bad file descriptor\n", string(output))
}

// TestSandboxKilled: the status says by which signal the copy ended.
func TestSandboxKilled(t *testing.T) {
	t.Parallel()
	var exit *exec.ExitError
	require.ErrorAs(t, sandbox(t, "kill").Run(), &exit)
	require.Equal(t, 128+int(syscall.SIGKILL), exit.ExitCode())
}

// TestSandboxSignal: the copy receives a signal of the program, unless the program ignores it, as below nohup(1).
func TestSandboxSignal(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			continue
		}
		cmd := sandbox(t, "wait")
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		text := make([]byte, len(" by 0, descriptor 3: bad file descriptor\nwaits\n"))
		_, err = io.ReadFull(out, text)
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(s))
		rest, err := io.ReadAll(out)
		require.NoError(t, err)
		require.Equal(t, s.String()+"\n", string(rest))
		var exit *exec.ExitError
		require.ErrorAs(t, cmd.Wait(), &exit)
		require.Equal(t, len("wait"), exit.ExitCode())
	}
}

// TestSandboxTemporaryDirectory: the path is absolute if TMPDIR is not, and a missing one is named.
func TestSandboxTemporaryDirectory(t *testing.T) {
	cmd := sandbox(t, "exit")
	cmd.Dir = t.TempDir()
	require.NoError(t, os.Mkdir(cmd.Dir+"/tmp", 0o700))
	cmd.Env = append(cmd.Env, "TMPDIR=tmp")
	output, err := cmd.Output()
	require.Error(t, err)
	require.Equal(t, " by 0, descriptor 3: bad file descriptor\n", string(output))
	left, err := os.ReadDir(cmd.Dir + "/tmp")
	require.NoError(t, err)
	require.Empty(t, left)

	cmd = sandbox(t, "exit")
	cmd.Env = append(cmd.Env, "TMPDIR=/missing")
	output, err = cmd.Output()
	require.Error(t, err)
	require.Regexp(t, "^directory for a sandbox: .*/missing.*: no such file or directory\n$", string(output))
}

// TestSandboxMarked: a program that has the mark of a copy, but is none, mounts nothing outside of its sandbox.
func TestSandboxMarked(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	here, err := os.Readlink("/proc/self/ns/mnt")
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	for name, mark := range map[string]struct {
		namespace string
		file      *os.File
	}{"in this namespace": {here, w}, "without a pipe": {"mnt:[1]", nil}} {
		victim := t.TempDir()
		cmd := mounttest.Program("sandbox", "exit")
		cmd.Env = append(cmd.Env, "MOUNTTEST_SANDBOX="+mark.namespace+" "+victim, "TMPDIR="+t.TempDir())
		if mark.file != nil {
			cmd.ExtraFiles = []*os.File{mark.file}
		}
		output, err := cmd.Output()
		require.Error(t, err, name)
		require.Contains(t, string(output), " by 0", name)
		mounted, err := mount.New(mount.Config{}).IsMountPoint(t.Context(), victim)
		require.NoError(t, err)
		require.False(t, mounted, name)
	}
	require.NoError(t, w.Close())
}

// TestNoSandbox: where no namespace can be made the program goes on, and nothing is left.
func TestNoSandbox(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	require.NoError(t, os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("0"), 0))
	cmd := mounttest.Program("sandbox", "exit")
	cmd.Env = append(cmd.Env, "TMPDIR="+t.TempDir())
	output, err := cmd.Output()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, noSandbox, exit.ExitCode())
	require.Contains(t, string(output), "no user and mount namespace to be had: ")
	require.Contains(t, string(output), syscall.ENOSPC.Error())
}

// TestSandboxRefused: a copy that may not mount says why, and ends.
func TestSandboxRefused(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cmd := mounttest.Program("sandbox", "exit")
	cmd.Env = append(cmd.Env, "MOUNTTEST_SANDBOX=mnt:[1] /missing")
	cmd.ExtraFiles = []*os.File{w}
	output, err := cmd.Output()
	require.Error(t, errors.Join(err, w.Close()))
	require.Empty(t, output)
	refusal, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, "mount: no such file or directory", string(refusal))
}
