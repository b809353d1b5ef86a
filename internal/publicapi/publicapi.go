// Package publicapi lists the functions that programs can call, for tests that require a row
// for each.
package publicapi

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// NotPublic are directories that programs do not import, or only in tests: fakes hang when a
// test makes them.
var NotPublic = []string{"internal", "examples", "bench", "testdata", "tools", "mounttest", "volumetest", "recyclertest", "disktest"}

// WithContext returns the exported functions, and methods with exported names, that have a
// context: "package.Type.Method". Methods of unexported types count, as plugins return such
// types. The repository is the directory of the module.
func WithContext(t *testing.T, repository string) (names []string) {
	t.Helper()
	for dir, files := range Files(t, repository) {
		for _, file := range files {
			for _, d := range file.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() && TakesContext(fn) {
					names = append(names, nameOf(dir, fn))
				}
			}
		}
	}
	slices.Sort(names)
	return names
}

// Files returns the files of the module's public packages that are built on this system, by
// directory. Nested modules are left out: they call an API server and no file system.
func Files(t *testing.T, repository string) map[string][]*ast.File {
	t.Helper()
	all := map[string][]*ast.File{}
	require.NoError(t, filepath.WalkDir(repository, func(p string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && p != repository && (strings.HasPrefix(entry.Name(), ".") || slices.Contains(NotPublic, entry.Name()) || isModule(p)):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go"):
			return nil
		}
		if built, err := build.Default.MatchFile(filepath.Dir(p), entry.Name()); !built || err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.ParseComments)
		dir, _ := filepath.Rel(repository, filepath.Dir(p))
		all[dir] = append(all[dir], file)
		return err
	}))
	return all
}

// isModule reports whether a directory is the root of a module.
func isModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

// TakesContext reports whether a parameter of a function is a context.Context.
func TakesContext(fn *ast.FuncDecl) bool {
	return slices.ContainsFunc(fn.Type.Params.List, func(field *ast.Field) bool {
		selector, ok := field.Type.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		from, ok := selector.X.(*ast.Ident)
		return ok && from.Name == "context" && selector.Sel.Name == "Context"
	})
}

func nameOf(dir string, fn *ast.FuncDecl) string {
	if receiver := receiverOf(fn); receiver != "" {
		return dir + "." + receiver + "." + fn.Name.Name
	}
	return dir + "." + fn.Name.Name
}

// receiverOf returns the name of a method's type, or "" for a function.
func receiverOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if generic, ok := of.(*ast.IndexExpr); ok {
		of = generic.X
	}
	return of.(*ast.Ident).Name
}
