package atomicdir

import (
	"path"
	"strings"
)

// A MountPoint is a directory or an empty file for another mount, such as another volume of
// a pod. It stays the same inode while sets change: the kernel detaches a mount, in all
// mount namespaces but the caller's, when its mount point is removed or replaced.
type MountPoint struct {
	// Name is the path relative to the directory, see [CheckMountPoint].
	Name string
	// File makes an empty regular file. Otherwise the mount point is a directory.
	File bool
}

// A view is a directory in which readers find the files of the current set: the
// directory of the sets, or one on the way to a mount point. Its entries are links into
// the current set, further views, and mount points.
type view struct {
	path  string            // "" is the directory of the sets
	links map[string]string // targets by name
	dirs  map[string]*view
	files map[string]bool // mount points that are files
}

func newView(name string) *view {
	return &view{path: name, links: map[string]string{}, dirs: map[string]*view{}, files: map[string]bool{}}
}

// arrangeView returns the view of a set, without links.
func arrangeView(points []MountPoint) (*view, error) {
	root := newView("")
	for _, p := range points {
		reason := badPoint(p.Name)
		if reason == "" {
			reason = root.addPoint(path.Clean(p.Name), p.File)
		}
		if reason != "" {
			return nil, operation.Refuse("Options.MountPoints", p.Name, reason)
		}
	}
	return root, nil
}

// CheckMountPoint returns an *InputError if a name is invalid for a mount point: it must be
// valid for a file, see [CheckName], and have at most 64 components.
func CheckMountPoint(name string) error {
	if reason := badPoint(name); reason != "" {
		return refuse(name, reason)
	}
	return nil
}

// mostDeep limits the depth of mount points, and with it the open descriptors.
const mostDeep = 64

func badPoint(name string) string {
	if reason := badName(name); reason != "" {
		return reason
	}
	if strings.Count(path.Clean(name), "/") >= mostDeep {
		return "more than 64 components"
	}
	return ""
}

// addPoint adds a mount point and the views that lead to it. It returns why the mount point is
// invalid, or "".
func (v *view) addPoint(name string, file bool) (reason string) {
	for {
		first, rest, more := strings.Cut(name, "/")
		isFile := file && !more
		if isFile && v.dirs[first] != nil || !isFile && v.files[first] {
			return "a file, and a directory"
		}
		if isFile {
			v.files[first] = true
			return ""
		}
		if v.dirs[first] == nil {
			v.dirs[first] = newView(path.Join(v.path, first))
		}
		if v, name = v.dirs[first], rest; !more {
			return ""
		}
	}
}

// addLinks adds links to the files of a set, whose directories are given by path. A file with the name of a mount point, or of a
// directory on the way to one, gets no link.
func (v *view) addLinks(set map[string]*directory) {
	if in := set[v.path]; in != nil {
		for _, name := range append(append([]string{}, in.files...), in.dirs...) {
			if v.dirs[name] == nil && !v.files[name] {
				v.links[name] = v.target(name)
			}
		}
	}
	for _, below := range v.dirs {
		below.addLinks(set)
	}
}

// target returns the target of a link of that name.
func (v *view) target(name string) string {
	up := ""
	if v.path != "" {
		up = strings.Repeat("../", strings.Count(v.path, "/")+1)
	}
	return up + path.Join(dataLink, v.path, name)
}

// has reports whether the name is an entry of the view.
func (v *view) has(name string) bool {
	_, linked := v.links[name]
	return linked || v.dirs[name] != nil || v.files[name]
}
