package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// programVar makes the test binary the program.
const programVar = "DROPIN_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(programVar) != "" || os.Getenv(insideVar) != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestProgram(t *testing.T) {
	if err := mounttest.Command("/proc/self/exe", "-test.run=^$").Run(); err != nil {
		mounttest.SkipWithout(t, "userns", err)
	}
	tmp := t.TempDir()
	stdout, stderr, err := program(tmp)
	if err != nil && strings.Contains(stderr, "nothing can be mounted here") {
		mounttest.SkipWithout(t, "userns", stderr)
	}
	require.NoError(t, err, stderr)
	require.Empty(t, stderr)
	lines := strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	require.Len(t, lines, 6, stdout)
	modes := map[string]string{}
	for _, line := range lines[:3] {
		name, _, _ := strings.Cut(line, " ")
		modes[name] = line[strings.LastIndex(line, " ")+1:]
	}
	require.Equal(t, map[string]string{"staging": "rw", "pod-a": "rw", "pod-b": "ro"}, modes)
	require.Equal(t, []string{"pod-a wrote a file, and pod-b read it.", "pod-b may not write.", "Took down 3 mounts."}, lines[3:])
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// program runs the program, which makes what it needs below tmp.
func program(tmp string, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := exec.Command("/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), programVar+"=1", "TMPDIR="+tmp)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func TestProgramOnDevice(t *testing.T) {
	if !mounttest.RootNamespace(t) {
		return
	}
	tmp, images := t.TempDir(), t.TempDir()
	image := images + "/image"
	require.NoError(t, os.WriteFile(image, nil, 0o600))
	require.NoError(t, os.Truncate(image, 16<<20))
	device, err := exec.Command("losetup", "--find", "--show", image).Output()
	if err != nil {
		mounttest.SkipWithout(t, "loop", err)
	}
	name := strings.TrimSpace(string(device))
	t.Cleanup(func() { require.NoError(t, exec.Command("losetup", "--detach", name).Run()) })
	for range 2 { // it is formatted once
		stdout, stderr, err := program(tmp, "-device", name)
		require.NoError(t, err, stderr)
		require.Contains(t, stdout, "ext4 on "+name+", rw\n")
		require.Contains(t, stdout, "ext4 on "+name+", ro\n")
		require.Contains(t, stdout, "Took down 3 mounts.")
	}
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}
