package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestMain(m *testing.M) { testbed.Main(m, start) }

// A result is the output and the exit status of the program.
type result struct {
	stdout, stderr string
	status         int
}

// A session runs the program with a temporary directory of its own.
type session struct {
	t     *testing.T
	dir   string // for the test's files
	tmp   string // for the program's
	setup func(*exec.Cmd)
}

func newSession(t *testing.T) *session {
	t.Helper()
	// Unlike t.TempDir, open to every user that a test may be.
	dir, err := os.MkdirTemp("", "podvolumes-test-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	s := &session{t: t, dir: dir, tmp: filepath.Join(dir, "tmp")}
	require.NoError(t, os.Mkdir(s.tmp, 0o755))
	return s
}

// unfolded joins the lines that the program has folded, which are not too long.
func unfolded(t *testing.T, stdout string) string {
	t.Helper()
	for line := range strings.Lines(stdout) {
		words := strings.Fields(strings.TrimPrefix(line, "dry run: "))
		if len(words) > 1 { // a word alone, such as a path, may be longer
			require.LessOrEqual(t, len([]rune(line)), 100+1, line)
		}
	}
	return strings.ReplaceAll(stdout, "\n    ", " ")
}

func (s *session) command(args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(s.t.Context(), time.Minute)
	s.t.Cleanup(cancel)
	executable, err := os.Executable()
	require.NoError(s.t, err)
	cmd := exec.CommandContext(ctx, executable, args...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), testbed.ProgramVariable+"=1", "TMPDIR="+s.tmp, program.Variable()+"=", "GORACE=atexit_sleep_ms=0")
	if s.setup != nil {
		s.setup(cmd)
	}
	return cmd
}

func (s *session) run(args ...string) result { return finish(s.t, s.command(args...)) }

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{unfolded(t, stdout.String()), stderr.String(), cmd.ProcessState.ExitCode()}
}

// mkdir makes a directory for the test, and returns its path.
func (s *session) mkdir(elem ...string) string {
	s.t.Helper()
	dir := filepath.Join(append([]string{s.dir}, elem...)...)
	require.NoError(s.t, os.MkdirAll(dir, 0o755))
	require.NoError(s.t, os.Chmod(dir, 0o777)) // for every user that a test may be
	return dir
}

// manifest writes one, with the test's directory for $DIR, and returns its path.
func (s *session) manifest(text string) string {
	s.t.Helper()
	name := filepath.Join(s.dir, "test.yaml")
	text = strings.ReplaceAll(text, "$DIR", s.dir)
	require.NoError(s.t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

// requireNothingLeft checks the program's directories and mounts.
func (s *session) requireNothingLeft() {
	s.t.Helper()
	require.Empty(s.t, files(s.t, s.tmp))
	table, err := os.ReadFile("/proc/self/mountinfo")
	if !errors.Is(err, os.ErrNotExist) {
		require.NoError(s.t, err)
		require.NotContains(s.t, string(table), s.dir)
	}
}

// files lists all files and directories below dir.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(name string, _ os.DirEntry, err error) error {
		if name != dir {
			found = append(found, name)
		}
		return err
	}))
	return found
}

// isReal skips the rest of a test that was meant for a real kernel and did not
// get it.
func isReal(t *testing.T, r result) {
	t.Helper()
	if line, dry := strings.CutPrefix(r.stdout, "dry run: "); dry {
		line, _, _ = strings.Cut(line, "\n")
		mounttest.SkipWithout(t, "userns", line)
	}
}

// isDry checks that no line could be taken for the truth.
func isDry(t *testing.T, r result) {
	t.Helper()
	for line := range strings.Lines(r.stdout + r.stderr) {
		require.True(t, strings.HasPrefix(line, "dry run: "), line)
	}
}
