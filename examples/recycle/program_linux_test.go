package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/internal/namespace"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) { testbed.Main(m, func() int { return cli.Start(run) }) }

type result struct {
	stdout, stderr string
	status         int
}

// A user runs the program, in a temporary directory that is empty again afterwards.
type user struct {
	*testing.T
	uid int
}

// mkdir makes a directory where the user finds it, unlike TempDir.
func (u user) mkdir() string {
	u.Helper()
	dir, err := os.MkdirTemp("", "recycle-test-")
	require.NoError(u, err)
	u.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(u, os.Chown(dir, u.uid, -1))
	return dir
}

func (u user) run(args ...string) result {
	u.Helper()
	var stdout bytes.Buffer
	r := u.runTo(&stdout, args...)
	r.stdout = stdout.String()
	return r
}

// runTo has the program print to stdout, and returns the rest of the result.
func (u user) runTo(stdout io.Writer, args ...string) result {
	u.Helper()
	dir, coverage := u.mkdir(), u.mkdir()
	var stderr bytes.Buffer
	// The test's binary may be where only root finds it.
	cmd := exec.CommandContext(u.Context(), "/proc/self/exe", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), testbed.ProgramVariable+"=1", program.Variable()+"=", "TMPDIR="+dir, "GOCOVERDIR="+coverage, "GORACE=atexit_sleep_ms=0")
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	if u.uid != os.Geteuid() {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(u.uid), Gid: uint32(u.uid)}}
	}
	if err := cmd.Run(); errors.Is(err, os.ErrPermission) {
		u.Skipf("an ordinary user cannot get there: %v", err)
	}
	if strings.Contains(stderr.String(), namespace.None) {
		mounttest.SkipWithout(u, "userns", stderr.String())
	}
	left, err := os.ReadDir(dir)
	require.NoError(u, err)
	require.Empty(u, left)
	return result{stderr: stderr.String(), status: cmd.ProcessState.ExitCode()}
}

// asEachUser runs a test as the current user, and for root a second time as an ordinary user.
func asEachUser(t *testing.T, test func(user)) {
	t.Parallel()
	t.Run("as we are", func(t *testing.T) {
		t.Parallel()
		test(user{t, os.Geteuid()})
	})
	if os.Geteuid() == 0 {
		t.Run("ordinary user", func(t *testing.T) {
			t.Parallel()
			test(user{t, 65534})
		})
	}
}

func TestInProcess(t *testing.T) {
	asEachUser(t, func(u user) {
		r := u.run("-files", "20")
		require.Equal(u, 0, r.status, r)
		require.Empty(u, r.stderr)
		for _, line := range []string{
			"Volume pv-a: 20 files, 100 directories",
			"the source has submounts: ",
			"/disks/pv-a/d\nOf 123 names in the volume 123 are left.\n",
			"pv-a: removed 22 files and 101 directories\n",
			"\nRecycled: the volume is empty, and the file outside that the links lead to is whole.\nNothing is left mounted.\n",
		} {
			require.Contains(u, r.stdout, line)
		}
	})
}

func TestByPod(t *testing.T) {
	asEachUser(t, func(u user) {
		r := u.run("-pod", "-files", "20")
		require.Equal(u, 0, r.status, r)
		require.Empty(u, r.stderr)
		require.Regexp(u, `(?s)^A pod that may do its work:
Pod default/recycler-for-pv-a-\w+ mounts nfs.example:/exports/a
  and runs: /bin/sh -c .* find /scrub .*
Recycled: the volume is empty, and no pod is left.

A pod that is deleted at work:
.*
Not recycled: a \*recycler.PodError that wraps ErrPodDeleted .*
20 files are in the volume, and no pod is left.
$`, r.stdout)
	})
}

func TestBadCommandLines(t *testing.T) {
	for _, args := range []string{"-no-such-flag", "argument", "-files -1", "-files 1000001", "-files x"} {
		r := user{t, os.Geteuid()}.run(strings.Fields(args)...)
		require.Equal(t, 2, r.status, args)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
		require.Empty(t, r.stdout)
	}
	r := user{t, os.Geteuid()}.run("-help")
	require.Equal(t, 0, r.status, r)
	require.Contains(t, r.stdout, "-files")
}

// TestOutputFails: output that cannot be written is an error and ends the program, which
// leaves no file behind.
func TestOutputFails(t *testing.T) {
	asEachUser(t, func(u user) {
		testbed.EachFailingOutput(u, func(out *os.File, says string) {
			for _, args := range [][]string{nil, {"-pod"}, {"-help"}} {
				r := u.runTo(out, args...)
				require.NotZero(u, r.status, args)
				require.Contains(u, r.stderr, "recycle: standard output: ")
				require.Contains(u, r.stderr, says)
				require.Equal(u, 1, strings.Count(r.stderr, "\n"), r.stderr)
			}
		})
	})
}
