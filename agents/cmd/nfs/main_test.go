package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m, start) }

// A result is the output and the exit status of the program.
type result struct {
	stdout, stderr string
	status         int
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// tempDir lets the program work in a directory of the test's own.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	t.Setenv("TMPDIR", dir)
	return dir
}

// requireEmpty looks where the program puts things.
func requireEmpty(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

func touch(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
}

// after returns the text after the first line that matches.
func after(t *testing.T, text, line string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + line + `$`).FindStringIndex(text)
	require.NotNil(t, found, "no line %s in\n%s", line, text)
	return text[found[1]:]
}
