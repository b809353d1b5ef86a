package boot

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/kerneltest/guest"
)

// threads lets several goroutines run in turns of the kernel's, which are shorter
// than those that Go makes where there is one processor.
const threads = "GOMAXPROCS=4"

// Programs in the guest do without wide vector registers, whose contents may get
// lost there: see hideWideRegisters. So much for Go and for the C library.
const (
	narrowGo = "GODEBUG=cpu.all=off"
	narrowC  = "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX,-AVX2,-AVX512F,-AVX512VL,-AVX512BW,-XSAVE,-XSAVEC"
)

// countVar names a file of the host that tests append lines to. It is written by
// several guests at once: each gets a file of its own, and we append.
const countVar = "VOLUMEKIT_COUNT_FILE"

// outputFlags are the test binary's flags that name files it writes; the other
// ones below, directories.
var (
	outputFlags = []string{"coverprofile", "cpuprofile", "memprofile", "blockprofile", "mutexprofile", "trace", "testlogfile"}
	outputDirs  = []string{"outputdir", "gocoverdir"}
)

// newTask says what the guest is to do: run a test with these arguments, as if it
// were in dir on the host. What it counts goes to results.
func newTask(args, environ []string, dir, results string) guest.Task {
	return guest.Task{
		Args:     args,
		Env:      guestEnv(environ, results),
		Dir:      dir,
		Writable: append(writable(args, dir), results),
	}
}

// writable returns the directories that the flags send output to.
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

// testFlag takes "-test.name=value" apart.
func testFlag(arg string) (name, value string) {
	name, value, _ = strings.Cut(strings.TrimLeft(arg, "-"), "=")
	name, ok := strings.CutPrefix(name, "test.")
	if !ok {
		return "", ""
	}
	return name, value
}

// timeLimit is a little more than the test gives itself. A test that knows no
// limit gets an hour.
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

// guestEnv is the part of an environment that means the same in the guest.
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
