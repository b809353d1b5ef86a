package atomicdir

import (
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	maxName      = 4096
	maxComponent = 255
)

// A layout has the directories and files of a set.
type layout struct {
	dirs   []directory // parents before their subdirectories
	files  map[string]File
	seen   *view // without links, until addLinks is called
	byPath map[string]*directory
}

// addLinks adds the links to the files to the view. A recorded set needs none of them.
func (l layout) addLinks() { l.seen.addLinks(l.byPath) }

// A directory of a set has the names of its files and subdirectories.
type directory struct {
	path        string // "" is the top of the set
	files, dirs []string
}

// arrange checks the names of a set and of its mount points, and returns their layout.
func arrange(files map[string]File, points []MountPoint) (layout, error) {
	in := map[string]*directory{"": {files: make([]string, 0, len(files))}}
	l := layout{files: make(map[string]File, len(files)), byPath: in}
	names := slices.AppendSeq(make([]string, 0, len(files)), maps.Keys(files))
	slices.Sort(names)
	for _, written := range names {
		if reason := badName(written); reason != "" {
			return layout{}, refuse(written, reason)
		}
		name := path.Clean(written)
		if _, ok := l.files[name]; ok {
			return layout{}, refuse(written, "two names of one file")
		}
		l.files[name] = files[written]
		d := parent(in, name)
		d.files = append(d.files, path.Base(name))
	}
	for _, dir := range slices.Sorted(maps.Keys(in)) {
		if _, ok := l.files[dir]; ok {
			return layout{}, refuse(dir, "a file, and a directory of others")
		}
		l.dirs = append(l.dirs, *in[dir])
	}
	var err error
	l.seen, err = arrangeView(points)
	return l, err
}

// parent returns the directory of a name, and adds it and its parents if they are missing.
func parent(in map[string]*directory, name string) *directory {
	dir := path.Dir(name)
	if dir == "." {
		dir = ""
	}
	if d, ok := in[dir]; ok {
		return d
	}
	d := &directory{path: dir}
	in[dir] = d
	above := parent(in, dir)
	above.dirs = append(above.dirs, path.Base(dir))
	return d
}

// join returns the name of an entry of a directory of the set. Both are clean.
func join(dir, base string) string {
	if dir == "" {
		return base
	}
	return dir + "/" + base
}

// CheckName returns an *InputError if a name is invalid for a file of a set: it must be
// relative, of at most 4096 bytes, 255 in each component, without ".." and NUL, and must
// not begin with "..".
func CheckName(name string) error {
	if reason := badName(name); reason != "" {
		return refuse(name, reason)
	}
	return nil
}

func refuse(name, reason string) error {
	return operation.Refuse("name", name, reason)
}

// badName returns why a name is invalid by the kubelet's rules and those of file systems,
// or "".
func badName(name string) string {
	switch {
	case name == "":
		return "empty"
	case len(name) > maxName:
		return "longer than 4096 bytes"
	case path.IsAbs(name):
		return "not relative"
	case strings.ContainsRune(name, 0):
		return "must not contain NUL"
	case path.Clean(name) == ".":
		return "not a file's"
	case strings.HasPrefix(path.Clean(name), ".."):
		return `begins with ".."`
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "..":
			return `has ".."`
		case len(part) > maxComponent:
			return "a component is longer than 255 bytes"
		}
	}
	return ""
}
