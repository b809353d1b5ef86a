package testbed

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Guard is a piece of a package's code that maintains an invariant, and its replacement
// without the guard.
type Guard = struct {
	Name          string
	File          string // in the directory of the package, or in a room below it
	With, Without string // With occurs once in the file
}

// A Mutation selects guards of a package, and the tests that must fail without each of them.
type Mutation struct {
	Guards []Guard
	Run    string   // the tests, for go test -run
	Env    []string // of the tests
	// Says is a part of a failing test's output, so that a mutant that does not compile does
	// not count. Its line is logged. Empty: "--- FAIL".
	Says string
}

// SimulationMutants fails t for each of simulated without which 1,000 seeds of the package's TestSimulation
// pass, and for each of tabled without which the tests of the pattern tests pass. It compiles the package for
// each guard, so that only a long run has it.
func SimulationMutants(t *testing.T, simulated, tabled []Guard, tests string) {
	t.Helper()
	if !Long() {
		t.Skip("it compiles the package for each guard: VOLUMEKIT_LONG=1")
	}
	Mutants(t, Mutation{
		Guards: simulated, Run: "^TestSimulation$", Env: []string{"VOLUMEKIT_SEEDS=1000"}, Says: "replay with VOLUMEKIT_SEED=",
	})
	if len(tabled) > 0 {
		Mutants(t, Mutation{Guards: tabled, Run: tests})
	}
}

// Mutants runs the tests of the package in the working directory without each of its guards,
// in files that overlay the sources, and logs the score. It fails t for each guard without
// which the tests pass. It requires the go command. Mutants run in parallel; only guards whose
// names contain the environment variable MUTANTS are removed.
func Mutants(t *testing.T, m Mutation) {
	t.Helper()
	if m.Says == "" {
		m.Says = "--- FAIL"
	}
	here, err := os.Getwd()
	require.NoError(t, err)
	var found, all atomic.Int64
	t.Run("without", func(t *testing.T) {
		for _, guard := range m.Guards {
			if !strings.Contains(guard.Name, os.Getenv("MUTANTS")) {
				continue
			}
			t.Run(strings.ReplaceAll(guard.Name, " ", "_"), func(t *testing.T) {
				t.Parallel()
				all.Add(1)
				m.without(t, here, guard)
				found.Add(1)
			})
		}
	})
	t.Logf("score: %d of %d mutants killed", found.Load(), all.Load())
}

// CheckGuards fails t for each guard that does not occur exactly once in its file.
func CheckGuards(t *testing.T, guards []Guard) {
	t.Helper()
	for _, guard := range guards {
		text, err := os.ReadFile(guard.File)
		if err != nil {
			t.Errorf("guard %q: %v", guard.Name, err)
		} else if n := strings.Count(string(text), guard.With); n != 1 {
			t.Errorf("guard %q: %s has %d of %q", guard.Name, guard.File, n, guard.With)
		}
	}
}

func (m Mutation) without(t *testing.T, here string, guard Guard) {
	file := filepath.Join(here, guard.File)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(text), guard.With), "the guard is not there, or not alone")
	without := filepath.Join(t.TempDir(), filepath.Base(guard.File))
	require.NoError(t, os.WriteFile(without, []byte(strings.Replace(string(text), guard.With, guard.Without, 1)), 0o600))
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: without}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))

	cmd := exec.Command("go", "test", "-vet=off", "-count=1", "-overlay", overlay, "-run", m.Run, ".")
	if room := filepath.Dir(guard.File); room != "." {
		cmd.Args = append(cmd.Args, "./"+room)
	}
	cmd.Env = append(os.Environ(), append([]string{"VOLUMEKIT_LONG="}, m.Env...)...)
	output, err := cmd.CombinedOutput()
	require.Error(t, err, "the tests do not miss the guard")
	_, line, ok := strings.Cut(string(output), m.Says)
	require.True(t, ok, "it failed otherwise: %s", output)
	line, _, _ = strings.Cut(line, "\n")
	t.Log(m.Says + line)
}
