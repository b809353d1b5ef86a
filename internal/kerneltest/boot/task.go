package boot

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/kerneltest/guest"
)

// threads makes the guest's kernel schedule several threads, in shorter turns than the Go
// scheduler's on one processor.
const threads = "GOMAXPROCS=4"

// Programs in the guest must not use wide vector registers, whose contents may get lost
// there: see hideWideRegisters. These variables tell Go and the C library.
const (
	narrowGo = "GODEBUG=cpu.all=off"
	narrowC  = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-XSAVE,-XSAVEC"
)

// countVar names a file of the host to which tests append lines. Several guests run at once,
// so each gets a file of its own, and the host appends it.
const countVar = "VOLUMEKIT_COUNT_FILE"

// outputFlags are the test binary's flags that name output files; the flags below name
// directories.
var (
	outputFlags = []string{"coverprofile", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace", "testlogfile"}
	outputDirs  = []string{"outputdir", "gocoverdir"}
)

// newTask returns the guest's task: to run a test with these arguments, as if it were in dir
// on the host. The test's tally goes to results.
func newTask(args, environ []string, dir, results string) guest.Task {
	return guest.Task{
		Args:     args,
		Env:      guestEnv(environ, results),
		Dir:      dir,
		Writable: append(writable(args, dir), results),
	}
}

// writable returns the directories of the output flags.
func writable(args []string, dir string) (dirs []string) {
	for _, arg := range args {
		name, value := testFlag(arg)
		if value == "" {
			continue
		}
		if !filepath.IsAbs(value) {
			value = filepath.Join(dir, value)
		}
		switch {
		case slices.Contains(outputDirs, name):
			dirs = append(dirs, value)
		case slices.Contains(outputFlags, name):
			dirs = append(dirs, filepath.Dir(value))
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// testFlag splits "-test.name=value".
func testFlag(arg string) (name, value string) {
	name, value, _ = strings.Cut(strings.TrimLeft(arg, "-"), "=")
	name, ok := strings.CutPrefix(name, "test.")
	if !ok {
		return "", ""
	}
	return name, value
}

// timeLimit returns a little more than the test's own timeout, or an hour for a test without
// one.
func timeLimit(args []string) time.Duration {
	for _, arg := range args {
		if name, value := testFlag(arg); name == "timeout" {
			if limit, err := time.ParseDuration(value); err == nil && limit > 0 {
				return limit + 30*time.Second
			}
		}
	}
	return time.Hour
}

// guestEnv returns the part of an environment that has the same meaning in the guest.
func guestEnv(environ []string, results string) []string {
	env := []string{"TMPDIR=" + guest.TempDir, threads, narrowGo, narrowC}
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		switch {
		case name == countVar:
			env = append(env, countVar+"="+countFile(results))
		case slices.Contains([]string{"PATH", "HOME", "USER", "LANG", "XDG_CACHE_HOME"}, name),
			strings.HasPrefix(name, "GO") && name != "GODEBUG",
			strings.HasPrefix(name, "VOLUMEKIT_"):
			env = append(env, variable)
		}
	}
	return env
}

func countFile(results string) string { return filepath.Join(results, "count") }
