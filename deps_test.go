package volumekit_test

import (
	"encoding/json"
	"errors"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/volumekit/volumekit"

// A room is a package, or all that match a pattern of path.Match, and what it
// may import: patterns of rooms, and prefixes of packages of other modules. The
// standard library is open to all.
type room struct {
	pattern string
	ours    []string
	others  []string
}

const (
	api          = "k8s.io/api/"
	apimachinery = "k8s.io/apimachinery/"
	quantities   = "k8s.io/apimachinery/pkg/api/resource/"
	mountUtils   = "k8s.io/mount-utils/"
	sys          = "golang.org/x/sys/"
	utilExec     = "k8s.io/utils/exec/"
	testify      = "github.com/stretchr/testify/"

	leaves = "util/*"
)

// house is the import table: an edge that it lacks is a mistake in the code, or a
// change of the design.
var house = []room{
	{".", nil, nil},
	{"mount", []string{leaves}, []string{sys}},
	{"mount/mountutils", []string{"mount", leaves}, []string{mountUtils}},
	{"mount/mounttest", []string{"mount", leaves}, []string{sys, testify}},
	{"volume", nil, []string{api, apimachinery}},
	{"volume/volumetest", []string{"volume", "mount", "mount/mounttest", "util"}, []string{api, apimachinery, testify}},
	{"local", []string{"volume", "mount", "mount/mountutils", "util", leaves}, []string{api, apimachinery, sys, mountUtils, utilExec}},
	{"content", []string{"volume", "mount", "util", leaves}, []string{api, apimachinery}},
	{"emptydir", []string{"volume", "mount", "util", leaves}, []string{api, apimachinery, sys}},
	{"hostpath", []string{"volume", "mount", "util", leaves}, []string{api, apimachinery, sys}},
	{"nfs", []string{"volume", "mount", "util", leaves}, []string{api, apimachinery, sys}},
	{"manager", []string{"volume", "mount", "util", leaves, "internal/oneline"}, []string{api, apimachinery}},
	{"manager/manifests", []string{"volume", "internal/yamldoc", "internal/oneline", "internal/apidefaults"}, []string{api, apimachinery, sys}},
	{"recycler", []string{"volume", "mount", "util", leaves}, []string{api, apimachinery, sys}},
	{"recycler/recyclertest", []string{"recycler", "volume"}, []string{api, apimachinery}},
	{"util", []string{"mount", "volume", leaves}, []string{api, apimachinery, sys}},
	// What walks through directories that others change goes one way down.
	{"util/internal/beneath", []string{"util/safepath", "util/ctxend"}, []string{sys}},
	{"util/internal/beneathtest", []string{"util/internal/beneath", "internal/testbed", "mount/mounttest"}, nil},
	{"util/scrub", []string{"util/internal/beneath", "util/ctxend"}, []string{sys}},
	{"util/ownership", []string{"util/internal/beneath", "util/ctxend"}, []string{sys}},
	{"util/fsusage", []string{"util/internal/beneath"}, []string{sys}},
	// Old sets are removed by the one place that deletes recursively.
	{"util/atomicdir", []string{"util/scrub", "util/internal/beneath"}, []string{sys}},
	{"util/subpath", []string{"mount", leaves}, []string{sys}},
	// What drivers answer with are quantities; whoever wants numbers alone has fsusage.
	{"util/metrics", []string{"util/fsusage"}, []string{quantities, sys}},
	{"util/quantity", nil, []string{quantities}},
	{leaves, nil, []string{sys}},
	{"internal/yamldoc", nil, []string{apimachinery}},
	{"internal/oneline", nil, nil},
	{"internal/apidefaults", nil, []string{api, apimachinery}},
	{"internal/strace", []string{"mount/mounttest"}, nil},
	{"internal/testbed", []string{"mount/mounttest"}, []string{sys, testify}},
	{"internal/kerneltest", nil, nil},
	{"internal/kerneltest/cmd/*", []string{"internal/kerneltest/*"}, nil},
	{"internal/kerneltest/nfsserver", []string{"internal/kerneltest/kernels", "internal/kerneltest/link", "mount/mounttest"}, []string{sys}},
	{"internal/kerneltest/*", []string{"internal/kerneltest/*"}, []string{sys}},
	{"examples/customplugin", []string{"volume", "mount", "util", "util/keylock", "util/ownership"}, []string{api, apimachinery}}, // as outside
	{"examples/nfs", []string{"*", "*/*", "internal/kerneltest/*", "examples/internal/cli"}, []string{""}},
	{"examples/internal/cli", nil, nil},
	{"examples/internal/namespace", []string{"mount/mounttest"}, nil},
	{"examples/*", []string{"*", "*/*", "examples/internal/*"}, []string{""}},
	{"bench", []string{"*", "*/*"}, []string{""}},
}

// closed are the rooms that nobody imports, tests included.
var closed = []string{"examples", "bench", "internal/kerneltest/cmd"}

// direct are the modules that go.mod may require for our own sake.
var direct = []string{
	"github.com/stretchr/testify",
	"golang.org/x/sys",
	"k8s.io/api",
	"k8s.io/apimachinery",
	"k8s.io/mount-utils",
	"k8s.io/utils", // the programs of SafeFormatAndMount; mount-utils requires it anyway
}

// A listed package is what go list says of one.
type listed struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

// room returns the package's path in the house.
func (p listed) room() string { return inHouse(p.ImportPath) }

func TestImportsKeepToTheTable(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, p := range list(t, goos) {
			r, ok := find(p.room())
			if !ok {
				t.Errorf("%s is a room that the import table in deps_test.go does not know: "+
					"say there what it may import", p.room())
				continue
			}
			for _, imported := range p.Imports {
				if !r.mayImport(imported) {
					t.Errorf("%s imports %s, which the import table in deps_test.go does not allow (GOOS=%s)",
						p.room(), imported, goos)
				}
			}
		}
	}
}

func TestTheTableRefuses(t *testing.T) {
	tests := []struct{ room, imported string }{
		{"mount", module + "/volume"},
		{"mount", "k8s.io/apimachinery/pkg/types"},
		{"mount", "k8s.io/apimachinery"},
		{"volume", module + "/mount"},
		{"volume", "k8s.io/apimachinery-more/pkg"},
		{"nfs", "k8s.io/mount-utils"},
		{"local", module + "/examples/podvolumes"},
		{"util", "github.com/stretchr/testify/require"},
		{"util/safepath", module + "/util/keylock"},
		{"util/safepath", module},
	}
	for _, test := range tests {
		r, ok := find(test.room)
		require.True(t, ok, test.room)
		require.False(t, r.mayImport(test.imported), "%s imports %s", test.room, test.imported)
	}
	_, ok := find("attic")
	require.False(t, ok)
}

func TestNobodyImportsPrograms(t *testing.T) {
	for _, p := range list(t, "linux") {
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for _, room := range closed {
				if isIn(imported, room) && !isIn(p.ImportPath, room) {
					t.Errorf("%s imports %s: programs are for running, not for importing", p.room(), imported)
				}
			}
		}
	}
}

// Importing the library must not drag the client libraries of Kubernetes along,
// and mounting must not drag Kubernetes along.
func TestWhatIsLinked(t *testing.T) {
	heavy := []string{"k8s.io/client-go/", "k8s.io/kubernetes/", "google.golang.org/grpc/", "github.com/prometheus/"}
	kubernetes := []string{"k8s.io/", "sigs.k8s.io/"}
	for _, p := range list(t, "linux") {
		if matches(p.room(), "examples/*", "bench") {
			continue
		}
		t.Logf("%s links %d packages", p.room(), len(p.Deps))
		forbidden := heavy
		if matches(p.room(), "mount", "mount/*", leaves) && p.room() != "mount/mountutils" {
			forbidden = slices.Concat(heavy, kubernetes)
		}
		if matches(p.room(), "util/metrics", "util/quantity") {
			forbidden = slices.Concat(heavy, []string{api, apimachinery + "pkg/apis/", apimachinery + "pkg/util/"})
		}
		for _, dep := range p.Deps {
			if hasPrefix(dep, forbidden) {
				t.Errorf("%s links %s", p.room(), dep)
			}
		}
	}
}

// linuxFile matches the names that the go command builds for Linux alone, with or
// without an architecture.
var linuxFile = regexp.MustCompile(`_linux(_[a-z0-9]+)?(_test)?\.go$`)

func TestOnlyLinuxFilesUseItsSystemCalls(t *testing.T) {
	for _, file := range goFiles(t) {
		if linuxFile.MatchString(file) {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			if spec.Path.Value == `"golang.org/x/sys/unix"` {
				t.Errorf("%s imports golang.org/x/sys/unix: only files for Linux may, such as *_linux.go", file)
			}
		}
	}
}

func TestDirectDependencies(t *testing.T) {
	var file struct {
		Require []struct {
			Path     string
			Indirect bool
		}
	}
	require.NoError(t, json.Unmarshal(run(t, "linux", "mod", "edit", "-json"), &file))
	var got []string
	for _, r := range file.Require {
		if !r.Indirect {
			got = append(got, r.Path)
		}
	}
	require.ElementsMatch(t, direct, got, "a new module needs a reason; see CONTRIBUTING.md")
}

// find returns the table's line for a room.
func find(name string) (room, bool) {
	i := slices.IndexFunc(house, func(r room) bool { return matches(name, r.pattern) })
	if i < 0 {
		return room{}, false
	}
	return house[i], true
}

func (r room) mayImport(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	switch {
	case !strings.Contains(first, "."): // the standard library
		return true
	case isIn(imported, "."):
		return matches(inHouse(imported), r.ours...)
	}
	return hasPrefix(imported, r.others)
}

func matches(room string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		ok, err := path.Match(pattern, room)
		return ok && err == nil
	})
}

func hasPrefix(imported string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool {
		return strings.HasPrefix(imported+"/", prefix)
	})
}

// isIn reports whether a package is a room of ours or in one.
func isIn(importPath, room string) bool {
	return strings.HasPrefix(importPath+"/", path.Join(module, room)+"/")
}

func inHouse(importPath string) string {
	if importPath == module {
		return "."
	}
	return strings.TrimPrefix(importPath, module+"/")
}

// list returns our packages as they are on a system.
func list(t *testing.T, goos string) []listed {
	t.Helper()
	output := json.NewDecoder(strings.NewReader(string(run(t, goos, "list", "-json", "./..."))))
	var all []listed
	for {
		var p listed
		err := output.Decode(&p)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		all = append(all, p)
	}
}

func run(t *testing.T, goos string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	require.NoError(t, err, "go %s", strings.Join(args, " "))
	return output
}

// goFiles returns the house's files, those for other systems included.
func goFiles(t *testing.T) []string {
	t.Helper()
	var files []string
	require.NoError(t, filepath.WalkDir(".", func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && p != "." && strings.HasPrefix(entry.Name(), "."):
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(p, ".go"):
			files = append(files, p)
		}
		return nil
	}))
	return files
}
