package boot

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/guest"
	"github.com/volumekit/volumekit/internal/kerneltest/kernels"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// roleVar makes the test binary the guest's first program, or the program that runs in the
// guest: its value names the role.
const roleVar = "VOLUMEKIT_TEST_ROLE"

// kernelVar names the kernel to test with.
const kernelVar = "VOLUMEKIT_KERNEL"

var roles = map[string]func(){
	"talk": func() {
		_, _ = os.Stdout.WriteString("one\r\n\x16two")
		os.Exit(3)
	},
	"die": func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) },
	"hang": func() {
		fmt.Println("hanging")
		time.Sleep(time.Hour)
	},
	"switch off": func() {
		fmt.Println("going")
		switchOff()
	},
	"switch off once": func() {
		must(os.WriteFile(os.Getenv(countVar), []byte("counted\n"), 0o600))
		if os.Mkdir(os.Args[1][len("-test.outputdir="):]+"/before", 0o700) == nil {
			switchOff()
		}
	},
	"write": func() {
		must(os.WriteFile(os.Getenv(countVar), []byte("counted\n"), 0o600))
		must(os.WriteFile(os.Args[1][len("-test.coverprofile="):], []byte("covered"), 0o600))
		must(os.WriteFile("gone", nil, 0o600))
		dir, err := os.Getwd()
		must(err)
		fmt.Println(dir, os.Getuid())
	},
}

func TestMain(m *testing.M) {
	if os.Getpid() == 1 {
		guest.Main()
	}
	if role := os.Getenv(roleVar); role != "" {
		roles[role]()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// switchOff ends the kernel.
func switchOff() {
	must(syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF))
	select {}
}

// runRole runs this binary in a role.
func runRole(t *testing.T, ctx context.Context, role string, args ...string) (output string, code int, err error) {
	t.Helper()
	name := os.Getenv(kernelVar)
	if name == "" {
		mounttest.SkipWithout(t, "kernels", kernelVar+" names none")
	}
	kernel, err := kernels.Find(name)
	require.NoError(t, err)
	program, err := os.Executable()
	require.NoError(t, err)
	t.Setenv(roleVar, role)
	var out strings.Builder
	code, err = Run(ctx, Test{Kernel: kernel, Program: program, Args: args, Output: &out})
	return out.String(), code, err
}

func TestOutputAndExitCode(t *testing.T) {
	output, code, err := runRole(t, t.Context(), "talk")
	require.NoError(t, err)
	require.Equal(t, 3, code)
	require.Equal(t, "one\r\n\x16two", output)
}

func TestProgramIsKilled(t *testing.T) {
	output, code, err := runRole(t, t.Context(), "die")
	require.NoError(t, err)
	require.Equal(t, 137, code)
	require.Contains(t, output, "killed")
}

// TestFiles checks that the files that the test binary is to write exist afterwards, and no
// others.
func TestFiles(t *testing.T) {
	dir, count := t.TempDir(), filepath.Join(t.TempDir(), "count")
	t.Chdir(dir)
	t.Setenv(countVar, count)
	require.NoError(t, os.WriteFile(count, []byte("before\n"), 0o600))
	profile := filepath.Join(t.TempDir(), "profile")
	output, code, err := runRole(t, t.Context(), "write", "-test.coverprofile="+profile)
	require.NoError(t, err)
	require.Zero(t, code, output)
	require.Equal(t, dir+" 0\n", output)
	for file, want := range map[string]string{count: "before\ncounted\n", profile: "covered"} {
		got, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	require.NoFileExists(t, dir+"/gone")
}

// TestEarlyShutdownIsRetried checks that a kernel which switches off before the test ends is booted
// once more, and that the last run decides.
func TestEarlyShutdownIsRetried(t *testing.T) {
	count, dir := filepath.Join(t.TempDir(), "count"), t.TempDir()
	t.Setenv(countVar, count)
	output, code, err := runRole(t, t.Context(), "switch off once", "-test.outputdir="+dir)
	require.NoError(t, err)
	require.Zero(t, code, output)
	require.DirExists(t, dir+"/before")
	counted, err := os.ReadFile(count)
	require.NoError(t, err)
	require.Equal(t, "counted\n", string(counted))

	output, code, err = runRole(t, t.Context(), "switch off")
	require.ErrorContains(t, err, "before the test did")
	require.Equal(t, guest.Failed, code)
	require.Equal(t, 2, strings.Count(output, "going\n"), output)
}

func TestRunEndsWithContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, code, err := runRole(t, ctx, "hang")
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, guest.Failed, code)
}
