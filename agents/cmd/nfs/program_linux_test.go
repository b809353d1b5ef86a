package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/internal/testbed"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// command is the program, as the test binary.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	cmd.Env = append(os.Environ(), testbed.ProgramVariable+"=1", "GORACE=atexit_sleep_ms=0")
	return cmd
}

// TestNFS is the program with a server, in a guest.
func TestNFS(t *testing.T) {
	exported := t.TempDir()
	server := nfsserver.Start(t, exported)
	dir := tempDir(t)
	touch(t, exported, "one", "two")
	for _, test := range []struct {
		args  []string
		shows []string
	}{
		{nil, []string{`type     nfs4`, `flags    rw,nosuid,nodev\S*`, `options  rw,vers=4.2,\S*addr=` + server.Address}},
		{[]string{"-ro"}, []string{`flags    ro,nosuid,nodev\S*`}},
		{[]string{"-o", "vers=4.1,noatime", "-o", "soft"}, []string{`flags    rw,\S*noatime\S*`, `options  rw,vers=4.1,\S*soft\S*`}},
	} {
		r := finish(t, command(t, append([]string{"-timeout", "2m", "-server", server.Address, "-path", exported}, test.args...)...))
		require.Equal(t, 0, r.status, r)
		require.Empty(t, r.stderr)
		shows := append(test.shows, "source   "+server.Source(exported), "files    one, two", `usage    .* available; \d+ of \d+ files`)
		for _, line := range shows {
			require.Regexp(t, `(?m)^  `+line+`$`, r.stdout)
		}
		require.Contains(t, r.stdout, "No mount and no directory is left.\n")
		requireEmpty(t, dir)
	}

	r := finish(t, command(t, "-timeout", "2m", "-server", server.Address, "-path", exported+"/none"))
	require.Equal(t, 1, r.status, r)
	require.Contains(t, r.stderr, "no such file or directory")
	requireEmpty(t, dir)
}

// TestNFSServerDies: a server that does not answer costs the program the time that it has,
// and leaves nothing.
func TestNFSServerDies(t *testing.T) {
	exported := t.TempDir()
	server := nfsserver.Start(t, exported)
	dir := tempDir(t)
	require.NoError(t, server.LinkDown())
	r := finish(t, command(t, "-timeout", "5s", "-server", server.Address, "-path", exported))
	require.Equal(t, 1, r.status, r)
	require.Contains(t, r.stderr, "deadline exceeded")
	requireEmpty(t, dir)
}

// kernelVar names the kernel to test with.
const kernelVar = "VOLUMEKIT_KERNEL"

// TestDemo runs the demo as "go run" does.
func TestDemo(t *testing.T) {
	kernel := os.Getenv(kernelVar)
	if kernel == "" {
		mounttest.SkipWithout(t, "kernels", kernelVar+" names none")
	}
	program := filepath.Join(t.TempDir(), "nfs")
	// The program is linked in the machine's usual way, also if the test is built without cgo.
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	build.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return v == "CGO_ENABLED=0" })
	// A process that the go command leaves behind would keep a pipe open.
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	defer output.Close()
	build.Stdout, build.Stderr = output, output
	err = build.Run()
	text, _ := os.ReadFile(output.Name())
	require.NoError(t, err, "%s", text)

	r := finish(t, exec.CommandContext(t.Context(), program, "-demo", "-kernel", kernel))
	require.Equal(t, 0, r.status, r)
	rest := r.stdout
	for _, line := range []string{
		`Linux [0-9.]+\S*, started as an ordinary program, with NFS servers of its own: .*`,
		`  options  rw,vers=4.2,.*`,
		`reader: 192.0.2.2:/export \(nfs4\), rw,nosuid,nodev,noatime.`,
		`writer: wrote "hello from writer" to greeting.txt.`,
		`server: has "hello from writer" in greeting.txt.`,
		`reader: read "hello from writer" from greeting.txt.`,
		`auditor: 192.0.2.2:/export \(nfs4\), ro,nosuid,nodev.*`,
		`auditor: a write is refused: read-only file system.`,
		`neighbour: 127.0.0.1:/neighbour \(nfs4\), rw,nosuid,nodev.*`,
		`The server dies: .*`,
		`writer: somebody looks for a file, and hangs.`,
		`latecomer: SetUp with 2s: after \S+: .*deadline exceeded.*`,
		`writer: GetMetrics with 2s: after \S+: .*deadline exceeded.*`,
		`neighbour: read "hello from neighbour" from greeting.txt.`,
		`writer: TearDown with 5s: after \S+: done.`,
		`The pod reader asks for news.txt, and waits.`,
		`The server comes back: .*`,
		`reader: read "news of the day" from news.txt.`,
		`The server dies again, for good.`,
		`reader: TearDown with 5s: after \S+: done.`,
		`auditor: TearDown with 5s: after \S+: done.`,
		`No mount and no directory is left.`,
		`The program has ended, and its kernel, after .* in all.`,
	} {
		rest = after(t, rest, line)
	}
}

// TestDemoWithoutKernel checks that the error names the missing kernel in one line.
func TestDemoWithoutKernel(t *testing.T) {
	t.Setenv("VOLUMEKIT_KERNELS", t.TempDir())
	t.Setenv("PATH", "/nonexistent")
	r := finish(t, command(t, "-demo", "-kernel", cmp.Or(os.Getenv(kernelVar), "6.1")))
	require.Equal(t, 1, r.status, r)
	require.Regexp(t, `^nfs: -demo: find a kernel: [^\n]+\n$`, r.stderr)

	r = finish(t, command(t, "-demo", "-kernel", "0.1"))
	require.Equal(t, 1, r.status, r)
	require.Contains(t, r.stderr, `"0.1" is none of`)
}
