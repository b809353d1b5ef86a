package volumekit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// computedThings lists the things that calls of SkipWithout in a file compute instead of naming
// them in a literal.
var computedThings = map[string][]string{
	"disk/rig_linux_test.go":                         {"ext4", "xfs", "btrfs", "strace"},
	"agents/cmd/sidecar/arena_linux_test.go":         {"resizer", "attacher"},
	"agents/cmd/sidecar/theirflags_test.go":          {"resizer", "attacher", "provisioner"},
	"local/rig_linux_test.go":                        {"ext4", "xfs", "btrfs", "strace", "loop"},
	"util/diskprobe/probe_test.go":                   {"ext2", "ext3", "ext4", "xfs", "btrfs", "swap"},
	"internal/testbed/requireprograms.go":            {"ext4", "xfs", "btrfs", "strace", "loop"},
	"internal/testbed/disk_linux.go":                 {"loop", "btrfs", "projectquota"},
	"internal/kerneltest/nfsserver/helper_linux.go":  {"mount.nfs"},
	"mount/contract_test.go":                         {"tier-classic", "tier-detached", "tier-tree-attr"},
	"mount/internal/table/cache_stale_linux_test.go": {"mountevents", "statmount"},
	"mount/mounttest/namespace_linux.go":             {"userns", "root"},
	"mount/mountutils/format_linux_test.go":          {"ext4", "xfs", "btrfs"},
	"mount/mountutils/peertest/format_linux_test.go": {"ext4", "xfs", "btrfs"},
}

// TestEachSkipIsRequired: each thing whose absence skips a test is required by at least one step of
// CI, so that no test is skipped everywhere.
func TestEachSkipIsRequired(t *testing.T) {
	required := requiredThings(t)
	computed := maps.Clone(computedThings)
	skips := 0
	for _, name := range goFiles(t) {
		things, rest := skipThings(t, name)
		if rest {
			require.Contains(t, computed, name, "the file computes the thing of a skip: list the values")
			things = append(things, computed[name]...)
			delete(computed, name)
		}
		for _, thing := range things {
			skips++
			require.Contains(t, required, thing, "%s: no step of CI requires the thing", name)
		}
	}
	require.Greater(t, skips, 50)
	require.Empty(t, computed, "the files compute no thing")
}

// requiredThings returns the things that CI requires: the lists in VOLUMEKIT_REQUIRE, and the
// variables that these lists are built from.
func requiredThings(t *testing.T) []string {
	t.Helper()
	lists := regexp.MustCompile(`(?m)(?:^readonly things|VOLUMEKIT_REQUIRE|^GUESTHAS\d*) ?= ?"?([\w.,$()-]+)`)
	var things []string
	for _, name := range []string{".ci/gate", ".ci/suites", "Makefile"} {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		found := lists.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, found, name)
		for _, list := range found {
			things = append(things, strings.Split(list[1], ",")...)
		}
	}
	return things
}

// skipThings returns the things in the calls of SkipWithout in a file, and whether further calls
// compute the thing.
func skipThings(t *testing.T, name string) (things []string, computed bool) {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	if !strings.Contains(string(text), "kipWithout(") {
		return nil, false
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		call, ok := node.(*ast.CallExpr)
		if !ok || !isSkipWithout(call) || isForwarded(call) {
			return true
		}
		if literal, ok := call.Args[1].(*ast.BasicLit); ok {
			thing, err := strconv.Unquote(literal.Value)
			require.NoError(t, err)
			things = append(things, thing)
		} else {
			computed = true
		}
		return true
	})
	return things, computed
}

// isSkipWithout reports whether a call is one of mounttest.SkipWithout, or of a variable that a
// package with no access to mounttest has for it.
func isSkipWithout(call *ast.CallExpr) bool {
	function := call.Fun
	if selector, ok := function.(*ast.SelectorExpr); ok {
		function = selector.Sel
	}
	name, ok := function.(*ast.Ident)
	return ok && strings.EqualFold(name.Name, "SkipWithout") && len(call.Args) == 3
}

// isForwarded reports whether a call passes on all parameters of a function that stands for
// SkipWithout.
func isForwarded(call *ast.CallExpr) bool {
	var names []string
	for _, argument := range call.Args {
		if name, ok := argument.(*ast.Ident); ok {
			names = append(names, name.Name)
		}
	}
	return slices.Equal(names, []string{"t", "thing", "why"})
}
