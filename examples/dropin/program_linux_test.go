package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/testbed"
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
	if err != nil && strings.Contains(stderr, "make mounts private") {
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

// program runs the program, which creates its directories below tmp.
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
	name := testbed.Loop(t, image)
	for range 2 { // it is formatted once
		stdout, stderr, err := program(tmp, "-device", name)
		require.NoError(t, err, stderr)
		require.Empty(t, stderr, "what mount-utils logs is not shown")
		require.Contains(t, stdout, "raw      a device of 16777216 bytes\n")
		require.Contains(t, stdout, "ext4 on "+name+", rw\n")
		require.Contains(t, stdout, "ext4 on "+name+", ro\n")
		require.Contains(t, stdout, "Took down 3 mounts.")
	}
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestUsage: -h prints the flags; a wrong flag is one line of error and status 2.
func TestUsage(t *testing.T) {
	stdout, stderr, err := program(t.TempDir(), "-h")
	require.NoError(t, err, stderr)
	require.Contains(t, stdout, "  -device DEVICE\n        a block DEVICE instead")
	for arg, says := range map[string]string{"extra": `unexpected argument "extra"`, "-nonsense": "not defined"} {
		stdout, stderr, err = program(t.TempDir(), arg)
		exit := (*exec.ExitError)(nil)
		require.ErrorAs(t, err, &exit)
		require.Equal(t, 2, exit.ExitCode())
		require.Empty(t, stdout)
		require.Contains(t, stderr, says)
		require.Equal(t, 1, strings.Count(stderr, "\n"))
	}
}

// TestDeviceMustBeBlockDevice: a file is not formatted, though it has no signature of a file system.
func TestDeviceMustBeBlockDevice(t *testing.T) {
	const text = "my notes"
	file := t.TempDir() + "/notes"
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	require.NoError(t, os.Truncate(file, 16<<20))
	for _, device := range []string{file, "/dev/null", t.TempDir()} {
		_, stderr, err := program(t.TempDir(), "-device", device)
		require.Error(t, err)
		require.Equal(t, "dropin: -device "+device+": not a block device\n", stderr)
	}
	_, stderr, err := program(t.TempDir(), "-device", file+"-none")
	require.Error(t, err)
	require.Contains(t, stderr, "no such file or directory")
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, text, string(bytes.TrimRight(got, "\x00")))
}

// TestOutputFails checks that a full disk and a closed pipe on standard output are errors
// that end the program, and that it leaves nothing behind.
func TestOutputFails(t *testing.T) {
	testbed.EachFailingOutput(t, func(out *os.File, says string) {
		tmp := t.TempDir()
		var errs bytes.Buffer
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), programVar+"=1", "TMPDIR="+tmp)
		cmd.Stdout, cmd.Stderr = out, &errs
		err := cmd.Run()
		if strings.Contains(errs.String(), "make mounts private") {
			mounttest.SkipWithout(t, "userns", errs.String())
		}
		exit := (*exec.ExitError)(nil)
		require.ErrorAs(t, err, &exit, errs.String())
		require.Equal(t, 1, exit.ExitCode(), errs.String())
		require.Contains(t, errs.String(), says)
		left, err := os.ReadDir(tmp)
		require.NoError(t, err)
		require.Empty(t, left)
	})
}

// TestUnstageInUse checks that the demo detects a driver that unstages a volume in use.
func TestUnstageInUse(t *testing.T) {
	f := newFixture(t, nil)
	d := demo{f.node, volume{source: f.disk}, f.staging + "-base", io.Discard}
	require.NoError(t, f.stage(d.volume, d.path("staging")))
	err := d.unpublishAndUnstage() // no pod has it
	require.EqualError(t, err, "unstage a published volume: no error")
}
