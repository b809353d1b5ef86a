package volumekit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/mount/mounttest"
)

// steps runs a script with the functions of .ci/steps, and returns its output.
func steps(t *testing.T, script string) (output string, err error) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		mounttest.SkipWithout(t, "shell", err)
	}
	text, err := exec.CommandContext(t.Context(), bash, "-c", "set -eu -o pipefail; base="+t.TempDir()+"; . .ci/steps; "+script).CombinedOutput()
	return string(text), err
}

// TestFailedTestsAreRepeated: the gate repeats a failed test once, alone, and lists it if it passes then. A package
// that failed in another way is not repeated.
func TestFailedTestsAreRepeated(t *testing.T) {
	const oneFails = "ok  \\tx/a\\t0.1s\\n--- FAIL: TestOne (0.00s)\\n    --- FAIL: TestOne/sub (0.00s)\\n--- FAIL: TestTwo (0.00s)\\nFAIL\\nFAIL\\tx/b\\t0.2s\\nFAIL\\n"
	for name, test := range map[string]struct {
		command  string // the script of the command in place of go test
		repeated string // the one in its place when tests are repeated
		passes   bool
		flaky    string
	}{
		"pass":          {"printf 'ok  \\tx/a\\t0.1s\\n'", "false", true, ""},
		"flaky":         {"printf '" + oneFails + "'; false", "true", true, "TestOne TestTwo of x/b\n"},
		"fail":          {"printf '" + oneFails + "'; false", "false", false, ""},
		"build":         {"printf 'FAIL\\tx/b [build failed]\\n'; false", "true", false, ""},
		"panic":         {"printf -- '--- FAIL: TestOne (0.00s)\\npanic: oh\\nFAIL\\tx/b\\t0.1s\\n'; false", "true", false, ""},
		"exit":          {"printf -- '--- FAIL: TestOne (0.00s)\\nFAIL\\tx/b\\t0.1s\\n'; false", "true", false, ""},
		"signal":        {"printf -- '--- FAIL: TestOne (0.00s)\\nFAIL\\nsignal: killed\\nFAIL\\tx/b\\t0.1s\\n'; false", "true", false, ""},
		"timed out":     {"printf 'panic: test timed out after 1s\\nFAIL\\tx/b\\t1s\\n'; false", "true", false, ""},
		"behind output": {"printf -- '--- FAIL: TestOne (0.00s)\\nworking... --- FAIL: TestTwo (0.00s)\\nFAIL\\nFAIL\\tx/b\\t0.1s\\n'; false", "true", false, ""},
		"no tests":      {"printf 'ok  \\tx/a\\t0.1s [no tests to run]\\n'", "true", false, ""},
		"no output":     {"false", "true", false, ""},
		"killed":        {"printf 'FAIL\\tx/b\\t0.1s\\n'; false", "true", false, ""},
		"not repeated":  {"printf '" + oneFails + "'; false", "printf 'ok  \\tx/b\\t0.1s [no tests to run]\\n'", false, ""},
		"skipped":       {"printf '" + oneFails + "'; false", "printf -- '--- SKIP: TestOne (0.00s)\\nok  \\tx/b\\t0.1s\\n'", false, ""},
		"after the end": {"printf -- '--- FAIL: TestOne (0.00s)\\nFAIL\\nleak\\nFAIL\\tx/b\\t0.1s\\n'; false", "true", false, ""},
		"alone":         {"printf -- '--- FAIL: TestOne (0.00s)\\nFAIL\\nexit status 1\\nFAIL\\tx/b\\t0.1s\\n'; false", "[ $3 = '^(TestOne)$' ]", true, "TestOne of x/b\n"},
		"two of them":   {"printf '" + oneFails + strings.ReplaceAll(oneFails, "x/b", "x/c") + "'; false", "[ $1 = x/b ]", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			output, err := steps(t, `
				command() { if [ $# -eq 0 ]; then `+test.command+`; else echo "repeat $*" >>$base/repeats; `+test.repeated+`; fi; }
				: >$base/flaky.txt
				status=0; tests $base/log command || status=$?
				echo flaky:; cat $base/flaky.txt
				[ ! -e $base/repeats ] || cat $base/repeats
				exit $status`)
			require.Equal(t, test.passes, err == nil, output)
			_, rest, _ := strings.Cut(output, "flaky:\n")
			if test.flaky != "" {
				names, _, _ := strings.Cut(test.flaky, " of ")
				require.Equal(t, test.flaky+"repeat x/b -run ^("+strings.ReplaceAll(names, " ", "|")+")$ -v\n", rest)
			} else if test.passes {
				require.Empty(t, rest)
			}
		})
	}
}

// TestFailedStepEndsTheGate: a step that fails anywhere ends the script.
func TestFailedStepEndsTheGate(t *testing.T) {
	output, err := steps(t, "work() { false; echo went on; }; nothing() { left_out=yes; }; step zero nothing; step one work; echo went on")
	require.Error(t, err)
	require.NotContains(t, output, "went on")
	require.Contains(t, output, "=== one: FAILED")
	require.Regexp(t, `(?m)^zero +\d+ +\d+  left out\none +\d+ +\d+  FAILED$`, output)
	output, err = steps(t, "step one true; step two true; table")
	require.NoError(t, err, output)
	require.Regexp(t, `(?m)^one +\d+ +\d+\ntwo +\d+ +\d+$`, output)
}

// TestFailedSuite: a suite ends at its first failure, and the others run.
func TestFailedSuite(t *testing.T) {
	text, err := os.ReadFile(".ci/suites")
	require.NoError(t, err)
	_, run, _ := strings.Cut(string(text), "# run_suite ")
	run, _, _ = strings.Cut(run, "suite_preparations()")
	output, err := steps(t, "cd $base; mkdir -p bin/suites; failed=; #"+run+`
		suite_one() {
			printf -- '--- FAIL: TestOne (0.00s)\n--- FAIL: TestTwo (0.00s)\nFAIL\nFAIL\tgithub.com/volumekit/volumekit/x/a\t0.1s\n'
			echo SEEDS 1 to 5
			printf 'FAIL\tx/b [build failed]\npanic: test timed out after 1s\nFAIL\tx/c\t1s\nFAIL\tx/d\t1s\n'
			false
			echo went on
		}
		suite_two() { true; }
		run_suite one; run_suite two; [ "$failed" = yes ]; ! grep "went on" bin/suites/one.txt`)
	require.NoError(t, err, output)
	require.Regexp(t, `(?m)^one +FAILED +\d+ +\d+  x/a: TestOne TestTwo; x/b: \(build failed\); x/c: \(timed out\); x/d: \(no failed test\) seeds 1 to 5$`, output)
	require.Regexp(t, `(?m)^two +passed `, output)
}

// TestGateFetchesNothing: the gate takes nothing from outside but the modules of go.sum and packages of Debian.
func TestGateFetchesNothing(t *testing.T) {
	for _, name := range []string{".ci/run", ".ci/gate", ".ci/steps"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.NotRegexp(t, `@latest|go get|go install|curl|wget|go clean`, string(text), name)
	}
}

// TestMarksBeginTests: make finds a marked test by its source: the mark is the first statement of a function Test*.
func TestMarksBeginTests(t *testing.T) {
	marked := 0
	mark := regexp.MustCompile(`(?m)^func (\w+)\(.*\n\t(testbed\.RealTime|testbed\.Attacks|attacks)\(t\)$`)
	call := regexp.MustCompile(`\b(RealTime|[aA]ttacks)\(t\)`)
	for _, name := range goFiles(t) {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		marks := mark.FindAllStringSubmatch(string(text), -1)
		require.Len(t, call.FindAllString(string(text), -1), len(marks), name)
		for _, m := range marks {
			require.True(t, strings.HasPrefix(m[1], "Test"), "%s: %s", name, m[1])
		}
		marked += len(marks)
	}
	require.Greater(t, marked, 20)
}

// chanceAllowed lists the tests that choose at random, without a seed, with the reason.
var chanceAllowed = map[string]string{
	"internal/kubeserver/server_linux.go":              "an address that no other server has",
	"internal/testbed/seed.go":                         "VOLUMEKIT_SEED=random",
	"controllers/bind/kube_linux_test.go":              "make test-cluster",
	"controllers/provision/kube_linux_test.go":         "make test-cluster",
	"controllers/provision/kubeprogram_linux_test.go":  "make test-cluster",
	"controllers/provision/kubeuser_linux_test.go":     "make test-cluster",
	"agents/cmd/sidecar/endtoendcluster_linux_test.go": "make test-cluster",
	"util/atomicdir/attack_linux_test.go":              "make attack",
}

// TestChoicesHaveSeeds: a test that makes random choices makes the same ones on each run, from a seed. The code under
// test may make others, such as the length of a pause: no test may depend on them.
func TestChoicesHaveSeeds(t *testing.T) {
	clock := regexp.MustCompile(`(?i)(seed|PCG).*Unix(?:Nano|Milli|Micro)`)
	seeded := []string{"New", "NewPCG", "NewSource", "NewZipf", "NewChaCha8"}
	found := map[string]bool{}
	for _, name := range goFiles(t) {
		if !strings.HasSuffix(name, "_test.go") && !strings.Contains(path.Dir(name), "test") && !strings.HasPrefix(name, "internal/") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		require.False(t, clock.Match(text), "%s: the clock is no seed: testbed.Seed", name)
		for _, function := range callsOfRand(t, name) {
			if slices.Contains(seeded, function) {
				continue
			}
			found[name] = true
			require.Contains(t, chanceAllowed, name, "rand.%s has no seed", function)
		}
	}
	for name := range chanceAllowed {
		require.True(t, found[name], "%s makes no unseeded choice", name)
	}
}

// callsOfRand returns the functions of math/rand that a file uses.
func callsOfRand(t *testing.T, name string) (functions []string) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	if !strings.Contains(string(text), `"math/rand`) {
		return nil
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok {
			return true
		}
		if selector, ok := call.Fun.(*ast.SelectorExpr); ok {
			if of, ok := selector.X.(*ast.Ident); ok && of.Name == "rand" {
				functions = append(functions, selector.Sel.Name)
			}
		}
		return true
	})
	return functions
}

// TestUnlistedBreaks: an incompatible change needs its name in an entry [Breaking] above the section of the release.
func TestUnlistedBreaks(t *testing.T) {
	const log = "# Changes\n\n## v0.2.0, not tagged yet\n\n- [Breaking] `util/scrub.Options.Every`, `volume.Spec.(*Host).Root`:\n" +
		"  use others. `volume.Next` goes.\n- [New API] `volume.Other`, see [Breaking]\n- [Breaking] `controllers/bind.New` `util/gone`\n\n" +
		"## v0.1.0, 2026-01-01\n\n- [Breaking] `volume.Old`\n"
	for name, test := range map[string]struct {
		module, release, change string
		isListed                bool
	}{
		"listed":     {".", "v0.1.0", "- ./util/scrub.Options.Every: removed", true},
		"method":     {".", "v0.1.0", "- ./volume.Spec.(*Host).Root: removed", true},
		"next line":  {".", "v0.1.0", "- ./volume.Next: removed", true},
		"nested":     {"controllers", "v0.1.0", "- ./bind.New: changed from func() to func(int)", true},
		"package":    {".", "v0.1.0", "- package github.com/volumekit/volumekit/util/gone: removed", true},
		"longer":     {".", "v0.1.0", "- ./util/scrub.Options.EveryOther: removed", false},
		"shorter":    {".", "v0.1.0", "- ./util/scrub.Options: old is comparable, new is not", false},
		"old":        {".", "v0.1.0", "- ./volume.Old: removed", false},
		"another":    {".", "v0.1.0", "- ./volume.Other: removed", false},
		"top module": {".", "v0.1.0", "- ./bind.New: removed", false},
		"no section": {".", "v0x1.0", "- ./volume.Next: removed", false},
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(dir+"/changes", []byte("Incompatible changes:\n"+test.change+"\n"), 0o600))
		require.NoError(t, os.WriteFile(dir+"/log", []byte(log), 0o600))
		output, err := steps(t, ".ci/api unlisted "+test.module+" "+test.release+" "+dir+"/changes "+dir+"/log")
		require.NoError(t, err, output)
		require.Equal(t, test.isListed, output == "", "%s: %s", name, output)
	}
}

// TestComparedAPI: the comparison fails if a command of it does, and if there is nothing to compare with and should be.
func TestComparedAPI(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		mounttest.SkipWithout(t, "shell", err)
	}
	const tool = "#!/bin/sh\ncase $* in *-w*) [ ! -e exportfails ] ;; *) [ ! -e ../comparisonfails ] && cat changes ;; esac\n"
	for name, test := range map[string]struct{ script, says string }{
		"no release":   {"echo '## v0.1.0, not tagged yet' >CHANGELOG.md", ".: no release to compare with"},
		"no tags":      {"echo '## v0.1.0, 2026-01-01' >CHANGELOG.md", "FAILED"},
		"same":         {"git tag v0.1.0; git tag v0.2.0-rc.1; git tag controllers/v0.3.0", ".: compared with v0.1.0; its incompatible changes are listed: 0"},
		"break":        {"git tag v0.1.0; echo '- ./a.B: removed' >changes", "FAILED"},
		"listed":       {"git tag v0.1.0; echo '- ./a.B: removed' >changes; printf '%s\n' '- [Breaking] `a.B`' '## v0.1.0' >CHANGELOG.md", ".: compared with v0.1.0; its incompatible changes are listed: 1"},
		"export fails": {"git tag v0.1.0; touch exportfails", "FAILED"},
		"old fails":    {"touch exportfails; git add .; git commit -qm 2; git tag v0.1.0; rm exportfails", "FAILED"},
		"no tool":      {"git tag v0.1.0; rm bin/apidiff", "FAILED"},
		"difference":   {"git tag v0.1.0; touch ../comparisonfails", "FAILED"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "clone")
			require.NoError(t, os.MkdirAll(dir+"/bin", 0o755))
			require.NoError(t, os.WriteFile(dir+"/bin/apidiff", []byte(tool), 0o755))
			require.NoError(t, os.WriteFile(dir+"/go.mod", []byte("module example.com/m\n"), 0o600))
			output, err := steps(t, "cp -r .ci "+dir+"; cd "+dir+"; "+`
				printf 'v0.2.0\n## v0.2.0\n## v0.1.0\n' >CHANGELOG.md; touch changes; unset GIT_DIR
				export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
				git init -q; git add .; git commit -qm 1
				`+test.script+"; .ci/api compare . || echo FAILED")
			require.NoError(t, err, output)
			require.Contains(t, output, test.says)
			require.Equal(t, test.says == "FAILED", strings.Contains(output, "FAILED"), output)
		})
	}
}
