package neverstuck

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/publicapi"
)

const (
	module     = "github.com/volumekit/volumekit"
	repository = "../.."
)

// TestOthersTouchMemoryOnly: an exported function without a context reaches no system call
// that may wait for a file system; exceptions are listed with the reason.
func TestOthersTouchMemoryOnly(t *testing.T) {
	g := newGraph(t)
	found := map[string]string{}
	for name := range g.public {
		if way := g.wayToSystem(name); way != nil && !g.takesContext[name] {
			found[strings.ReplaceAll(name, module+"/", "")] = strings.Join(way, " > ")
		}
	}
	for name, way := range found {
		if waits[name] == "" {
			t.Errorf("%s has no context and may wait: %s", name, strings.ReplaceAll(way, module+"/", ""))
		}
	}
	for name := range waits {
		require.Contains(t, found, name, "it touches memory only, and needs no line in waits")
	}
}

// A graph has the calls between the functions of the module. Function literals are part of
// the enclosing function. A method of an interface of the module stands for the methods of all
// types of the module that implement the interface.
type graph struct {
	uses         map[string][]string
	takesContext map[string]bool
	public       map[string]bool // functions and methods with exported names of public packages
	interfaces   map[string]*types.Interface
	types        []types.Type
}

func newGraph(t *testing.T) *graph {
	t.Helper()
	g := &graph{uses: map[string][]string{}, takesContext: map[string]bool{}, public: map[string]bool{}, interfaces: map[string]*types.Interface{}}
	load(t, func(p *types.Package, files []*ast.File, info *types.Info) { g.add(p, files, info) })
	for name, of := range g.interfaces {
		g.implement(name, of)
	}
	return g
}

func (g *graph) add(p *types.Package, files []*ast.File, info *types.Info) {
	for _, name := range p.Scope().Names() {
		named, ok := p.Scope().Lookup(name).(*types.TypeName)
		if !ok || named.IsAlias() {
			continue
		}
		if of, ok := named.Type().Underlying().(*types.Interface); ok {
			g.interfaces[p.Path()+"."+name] = of
		} else if generic, ok := named.Type().(*types.Named); ok && generic.TypeParams().Len() == 0 {
			g.types = append(g.types, named.Type())
		}
	}
	for _, file := range files {
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				g.addFunction(p, fn, info)
			}
		}
	}
}

func (g *graph) addFunction(p *types.Package, fn *ast.FuncDecl, info *types.Info) {
	name := info.Defs[fn.Name].(*types.Func).FullName()
	g.takesContext[name] = publicapi.TakesContext(fn)
	g.public[name] = fn.Name.IsExported() && isPublic(p.Path())
	if !g.public[name] {
		delete(g.public, name)
	}
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			if used, ok := info.Uses[id].(*types.Func); ok {
				g.uses[name] = append(g.uses[name], used.Origin().FullName())
			}
		}
		return true
	})
}

func isPublic(path string) bool {
	rest, ok := strings.CutPrefix(path, module+"/")
	return ok && !slices.ContainsFunc(strings.Split(rest, "/"), func(part string) bool { return slices.Contains(publicapi.NotPublic, part) })
}

// implement adds calls from the methods of an interface to those of its implementations. It
// omits error and fmt.Stringer, whose methods only format.
func (g *graph) implement(name string, of *types.Interface) {
	for _, t := range g.types {
		pointer := types.NewPointer(t)
		if of.NumMethods() == 0 || !types.Implements(t, of) && !types.Implements(pointer, of) {
			continue
		}
		all := types.NewMethodSet(pointer)
		for m := range of.Methods() {
			if impl := all.Lookup(m.Pkg(), m.Name()); impl != nil {
				g.uses[m.FullName()] = append(g.uses[m.FullName()], impl.Obj().(*types.Func).FullName())
			}
		}
	}
}

// wayToSystem returns the functions on a path to a system call, or nil. A function with a
// context ends the path: its caller passes a context of its own.
func (g *graph) wayToSystem(from string) []string {
	before := map[string]string{from: ""}
	for next := []string{from}; len(next) > 0; next = next[1:] {
		for _, to := range g.uses[next[0]] {
			if _, seen := before[to]; seen {
				continue
			}
			before[to] = next[0]
			if isSystem(to) {
				var way []string
				for at := to; at != ""; at = before[at] {
					way = append(way, at)
				}
				slices.Reverse(way)
				return way
			}
			next = append(next, to)
		}
	}
	return nil
}

// isSystem reports whether a function of another module may wait for a file system.
func isSystem(name string) bool {
	bare := strings.TrimLeft(name, "(*")
	for _, p := range []string{"os.", "syscall.", "golang.org/x/sys/unix.", "os/exec.", "net.", "k8s.io/mount-utils.", "k8s.io/utils/exec."} {
		if rest, ok := strings.CutPrefix(bare, p); ok {
			return !slices.ContainsFunc(harmless, func(h string) bool { return strings.HasPrefix(rest, h) })
		}
	}
	return slices.Contains([]string{
		"path/filepath.EvalSymlinks", "path/filepath.Walk", "path/filepath.WalkDir", "path/filepath.Glob", "io/fs.WalkDir", "io/fs.ReadDir",
	}, name)
}

// harmless are prefixes of functions of those packages that wait for no file system.
var harmless = []string{
	"Errno)", "PathError)", "SyscallError)", "LinkError)", "NewSyscallError", "NewFile", "File).Fd", "File).Name", "Getenv", "LookupEnv", "Environ",
	"Getpid", "Geteuid", "Getegid", "Getuid", "Getgid", "Gettid", "Getwd", "Is", "Mkdev", "Major", "Minor", "ByteSliceToString",
	"Addr", "ParseIP", "IP", "ParseCIDR", "SplitHostPort", "JoinHostPort", "Error", "Signal", "NsecTo", "Sysinfo", "Uname", "FileMode)",
}

// load type-checks the packages of the module from source, in the order of their imports, and
// reads the export data of other packages.
func load(t *testing.T, take func(*types.Package, []*ast.File, *types.Info)) {
	t.Helper()
	fset := token.NewFileSet()
	exports := map[string]string{}
	ours := map[string]*types.Package{}
	others := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	imports := importerFunc(func(path string) (*types.Package, error) {
		if p := ours[path]; p != nil {
			return p, nil
		}
		return others.Import(path)
	})
	for _, p := range listPackages(t) {
		exports[p.ImportPath] = p.Export
		if !strings.HasPrefix(p.ImportPath, module) {
			continue
		}
		var files []*ast.File
		for _, name := range p.GoFiles {
			file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, file)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
		checked, err := (&types.Config{Importer: imports}).Check(p.ImportPath, fset, files, info)
		require.NoError(t, err)
		ours[p.ImportPath] = checked
		take(checked, files, info)
	}
}

type importerFunc func(path string) (*types.Package, error)

func (f importerFunc) Import(path string) (*types.Package, error) { return f(path) }

type listed struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// listPackages returns the public packages and all their imports, imports first.
func listPackages(t *testing.T) (all []listed) {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, dir := range slices.Sorted(maps.Keys(publicapi.Files(t, repository))) {
		args = append(args, strings.TrimSuffix(module+"/"+dir, "/."))
	}
	c := exec.CommandContext(t.Context(), "go", args...)
	c.Dir, c.Stderr = repository, os.Stderr
	output, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	for decoder := json.NewDecoder(output); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
	require.NoError(t, c.Wait())
	return all
}

// waits are the exported functions without a context that make system calls, with the reason
// why none waits for a file system, or the place of the context.
var waits = map[string]string{
	"(disk.kernelDevices).Open":      ofDisk,
	"(disk.kernelDevices).Identify":  ofDisk,
	"(*disk.kernelHandle).Close":     ofDisk,
	"(*disk.kernelHandle).ReadAt":    ofDisk,
	"(*disk.kernelHandle).Write":     ofDisk,
	"(disk.systemPrograms).LookPath": ofDisk,
	"(disk.withoutMarker).ReadAt":    ofDisk,

	"(*mount.Mounter).Close":        "closes descriptors that no file system hears of",
	"(*util/scrub.Root).Close":      "closes a descriptor that no file system hears of",
	"util/safepath.MountID":         "reads what proc has of the process itself",
	"util/diskprobe.Probe":          "reads from the caller's reader, and waits as long as that does",
	"util/metrics.NewMetricsDu":     "returns what takes the context",
	"(*content.Plugin).NewMounter":  "returns what takes the context",
	"(*emptydir.Plugin).NewMounter": "returns what takes the context",
	"manager.New":                   "returns what takes the context",
	"mount.New":                     "returns what takes the context",
	"flexvolume.New":                "returns what takes the context",

	"(*mount/mountutils.Mounter).GetMountRefs":                                        ofPeer,
	"(*mount/mountutils.Mounter).IsLikelyNotMountPoint":                               ofPeer,
	"(*mount/mountutils.Mounter).IsMountPoint":                                        ofPeer,
	"(*mount/mountutils.Mounter).List":                                                ofPeer,
	"(*mount/mountutils.Mounter).Mount":                                               ofPeer,
	"(*mount/mountutils.Mounter).MountSensitive":                                      ofPeer,
	"(*mount/mountutils.Mounter).MountSensitiveWithoutSystemd":                        ofPeer,
	"(*mount/mountutils.Mounter).MountSensitiveWithoutSystemdWithMountFlags":          ofPeer,
	"(*mount/mountutils.Mounter).Unmount":                                             ofPeer,
	"(*mount/mountutils.Mounter).UnmountWithForce":                                    ofPeer,
	"(*mount/mountutils.SafeFormatAndMount).FormatAndMount":                           ofPeer,
	"(*mount/mountutils.SafeFormatAndMount).FormatAndMountSensitive":                  ofPeer,
	"(*mount/mountutils.SafeFormatAndMount).FormatAndMountSensitiveWithFormatOptions": ofPeer,
	"(*mount/mountutils.SafeFormatAndMount).GetDiskFormat":                            ofPeer,
	"(*mount/mountutils.ResizeFs).Resize":                                             ofPeer,
	"(*mount/mountutils.ResizeFs).NeedResize":                                         ofPeer,
}

const (
	ofPeer = "k8s.io/mount-utils has it so: see mountutils.WithContext and WithTimeout"
	ofDisk = "a step of disk.Disks or disk.Device, of a type that no program has"
)
