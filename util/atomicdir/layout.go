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

// A layout is where a set's files are.
type layout struct {
	dirs  []directory // parents before what is in them
	files map[string]File
	tops  map[string]bool // what is visible in the directory itself
}

// A directory of a set, and the names in it.
type directory struct {
	path        string // "" is the set's own
	files, dirs []string
}

// arrange checks the names of a set.
func arrange(files map[string]File) (layout, error) {
	l := layout{files: map[string]File{}, tops: map[string]bool{}}
	in := map[string]*directory{"": {}}
	for _, written := range slices.Sorted(maps.Keys(files)) {
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
	for _, name := range slices.Concat(in[""].files, in[""].dirs) {
		l.tops[name] = true
	}
	return l, nil
}

// parent returns the directory of a name, and sees to it that those above have it.
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

// CheckName returns an *InputError if a file of a set cannot have the name: it is
// relative, of at most 4096 bytes, 255 in each component, without ".." and NUL, and does
// not begin with "..".
func CheckName(name string) error {
	if reason := badName(name); reason != "" {
		return refuse(name, reason)
	}
	return nil
}

func refuse(name, reason string) error {
	return &InputError{Field: "name", Value: name, Reason: reason}
}

// badName says what is wrong with a name, by the kubelet's rules and those of file
// systems.
func badName(name string) string {
	switch {
	case name == "":
		return "empty"
	case len(name) > maxName:
		return "longer than 4096 bytes"
	case path.IsAbs(name):
		return "not relative"
	case strings.ContainsRune(name, 0):
		return "has a NUL"
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
