package content

import "path"

// paths holds the clean paths that the items of a volume name.
type paths struct {
	differ bool // paths must be unique
	files  map[string]bool
	dirs   map[string]bool // the directories of the files
}

func newPaths(differ bool) paths {
	return paths{differ: differ, files: map[string]bool{}, dirs: map[string]bool{}}
}

// add records a path, or returns its fault.
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
