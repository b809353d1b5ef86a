// Package modules knows which kernel modules need which.
package modules

import (
	"path"
	"strings"
)

// A Table is what a kernel's modules.dep says. The zero value knows no module.
type Table struct {
	needs map[string][]string // by path
	paths map[string]string   // by name
}

// Parse reads the text of a modules.dep: in each line the path of a module, a
// colon, and the paths of those that it needs. Lines of another form are passed
// over.
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

// Name returns the name of the module at a path: without directory, ".ko" and
// the suffix of a compressed one. Modules are written with "-" or "_" and mean
// the same.
func Name(modulePath string) string {
	name, _, _ := strings.Cut(path.Base(modulePath), ".")
	return strings.ReplaceAll(name, "-", "_")
}

// Order returns the paths of the named modules and of all that they need, each
// once and after what it needs. Names that the table does not know are left out:
// the kernel has them built in, or not at all.
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
