package volumekit_test

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/mounttest"
)

// maxLines is what one reads in a sitting.
const maxLines = 120

// TestExamplesAreCopied: each example is short, and works in a module outside of the tree, where internal packages cannot be
// imported: a program prints what its documentation says, and tests pass.
func TestExamplesAreCopied(t *testing.T) {
	examples, err := filepath.Glob("examples/*")
	require.NoError(t, err)
	for _, module := range []string{"controllers", "csi"} {
		more, err := filepath.Glob(module + "/examples/*")
		require.NoError(t, err)
		examples = append(examples, more...)
	}
	require.Greater(t, len(examples), 10)
	for _, dir := range examples {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			requireShort(t, dir)
			copied := copyOutside(t, dir)
			want, isProgram := printedBy(t, dir)
			if isProgram {
				require.Equal(t, want, runExample(t, copied))
			}
			if tests, err := filepath.Glob(dir + "/*_test.go"); err != nil || len(tests) > 0 {
				_ = goAt(t, copied, "test", "-short", ".")
			} else {
				require.True(t, isProgram, "nothing has run")
			}
		})
	}
}

// requireShort requires that the sources of an example, without its tests, have few lines.
func requireShort(t *testing.T, dir string) {
	t.Helper()
	lines := 0
	for _, name := range sources(t, dir) {
		if !strings.HasSuffix(name, "_test.go") {
			lines += strings.Count(readFile(t, name), "\n")
		}
	}
	require.LessOrEqual(t, lines, maxLines)
}

func sources(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(dir + "/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	return names
}

// copyOutside copies an example into a module of its own, which replaces the modules of the tree as README.md says, and has
// the versions of the example's module.
func copyOutside(t *testing.T, dir string) (copied string) {
	t.Helper()
	copied = t.TempDir()
	require.NoError(t, os.CopyFS(copied, os.DirFS(dir)))
	home, _, _ := strings.Cut(dir, "examples") // of the example's module
	tree, err := os.Getwd()
	require.NoError(t, err)
	requires := regexp.MustCompile(`(?s)\nrequire \(.*?\n\)`).FindAllString(readFile(t, home+"go.mod"), -1)
	require.NotEmpty(t, requires)
	var mod strings.Builder
	mod.WriteString("module example.com/copied\n\ngo 1.25.0\n" + strings.Join(requires, "\n") + "\n")
	for _, m := range []string{"", "/controllers", "/csi"} {
		if m == "" || m+"/" == "/"+home {
			mod.WriteString("require " + module + m + " v0.0.0\n")
		}
		mod.WriteString("replace " + module + m + " => " + tree + m + "\n")
	}
	require.NoError(t, os.WriteFile(copied+"/go.mod", []byte(mod.String()), 0o600))
	require.NoError(t, os.WriteFile(copied+"/go.sum", []byte(readFile(t, home+"go.sum")), 0o600))
	return copied
}

// printedBy returns what a program prints by the documentation of its package. It is not ok for a package that is no program,
// and for a program that runs until it is stopped.
func printedBy(t *testing.T, dir string) (text string, ok bool) {
	t.Helper()
	for _, name := range sources(t, dir) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.PackageClauseOnly)
		require.NoError(t, err)
		if _, printed, ok := strings.Cut(file.Doc.Text(), "prints\n\n"); ok && file.Name.Name == "main" {
			printed, _, _ = strings.Cut(printed+"\n", "\n\n")
			return strings.ReplaceAll(strings.TrimPrefix(printed, "\t"), "\n\t", "\n") + "\n", true
		}
	}
	return "", false
}

// runExample runs a program, and returns its output, with names of its directory and its volumes as in its documentation.
func runExample(t *testing.T, copied string) (output string) {
	t.Helper()
	if err := mounttest.Command("/proc/self/exe", "-test.run=^$").Run(); err != nil {
		mounttest.SkipWithout(t, "userns", err)
	}
	output = goAt(t, copied, "run", ".")
	output = regexp.MustCompile(`[^ \["]*/m[0-9]+/`).ReplaceAllString(output, "/tmp/m1/")
	return regexp.MustCompile(`pvc-[0-9a-f-]{36}`).ReplaceAllString(output, "pvc-1")
}

// goAt runs the go command in a directory, and returns its output.
func goAt(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod "+os.Getenv("GOFLAGS")) // as the packages are built already
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	require.NoError(t, err, "go %s: %s%s", path.Join(args...), stdout, stderr.String())
	return string(stdout)
}
