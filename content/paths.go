package content

import "path"

// Paths are those that the items of a volume have named, clean.
type paths struct {
	differ bool // a path must not come twice
	files  map[string]bool
	dirs   map[string]bool // that the files are in
}

func newPaths(differ bool) paths {
	return paths{differ: differ, files: map[string]bool{}, dirs: map[string]bool{}}
}

// add says what is wrong with one more path.
func (p paths) add(name string) (reason string) {
	name = path.Clean(name)
	switch {
	case p.differ && p.files[name]:
		return "another file has the same path"
	case p.dirs[name]:
		return "a directory of another file"
	}
	p.files[name] = true
	for i := range len(name) {
		if name[i] != '/' {
			continue
		}
		if p.files[name[:i]] {
			return "in a directory that is another file"
		}
		p.dirs[name[:i]] = true
	}
	return ""
}
