// Package modules resolves dependencies of kernel modules.
package modules

import (
	"path"
	"strings"
)

// A Table is a parsed modules.dep. The zero value has no module.
type Table struct {
	needs map[string][]string // dependencies, by path
	paths map[string]string   // by name
}

// Parse parses a modules.dep: each line has the path of a module, a colon, and the paths of
// its dependencies. Other lines are skipped.
func Parse(text string) Table {
	t := Table{needs: map[string][]string{}, paths: map[string]string{}}
	for line := range strings.Lines(text) {
		module, needs, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok || module == "" {
			continue
		}
		t.needs[module] = strings.Fields(needs)
		t.paths[Name(module)] = module
	}
	return t
}

// Name returns the name of the module at a path: without directory, ".ko" and the suffix of
// a compressed one. "-" and "_" are equivalent in names.
func Name(modulePath string) string {
	name, _, _ := strings.Cut(path.Base(modulePath), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// Order returns the paths of the named modules and of all their dependencies, each once and
// after its dependencies. It skips unknown names, which are built in or not available.
func (t Table) Order(names ...string) []string {
	w := walk{table: t, seen: map[string]bool{}}
	for _, name := range names {
		if modulePath, ok := t.paths[Name(name)]; ok {
			w.visit(modulePath)
		}
	}
	return w.order
}

// A walk is the state of Order.
type walk struct {
	table Table
	seen  map[string]bool
	order []string
}

func (w *walk) visit(modulePath string) {
	if w.seen[modulePath] {
		return
	}
	w.seen[modulePath] = true
	for _, needed := range w.table.needs[modulePath] {
		w.visit(needed)
	}
	w.order = append(w.order, modulePath)
}
