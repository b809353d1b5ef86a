package manager

import (
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A simTree is the disk of a simulated node: directories and files by their paths, without mounts.
type simTree map[string]*simNode

// A simNode is a directory, or a file.
type simNode struct {
	name string
	in   map[string]bool // names in a directory; nil: a file
	data []byte
}

func (n *simNode) Name() string       { return n.name }
func (n *simNode) Size() int64        { return int64(len(n.data)) }
func (n *simNode) ModTime() time.Time { return time.Time{} }
func (n *simNode) IsDir() bool        { return n.in != nil }
func (n *simNode) Sys() any           { return n }

func (n *simNode) Mode() fs.FileMode {
	if n.IsDir() {
		return fs.ModeDir | 0o755
	}
	return 0o644
}

func newSimTree() simTree { return simTree{"/": {name: "/", in: map[string]bool{}}} }

// Lstat implements mounttest.Files.
func (t simTree) Lstat(name string) (fs.FileInfo, error) {
	if n := t[name]; n != nil {
		return n, nil
	}
	return nil, syscall.ENOENT
}

// Readlink implements mounttest.Files.
func (t simTree) Readlink(string) (string, error) { return "", syscall.EINVAL }

// SameFile implements mounttest.Files.
func (t simTree) SameFile(a, b fs.FileInfo) bool { return a == b }

func (t simTree) add(name string, n *simNode) {
	dir := t[path.Dir(name)]
	n.name = path.Base(name)
	dir.in[n.name] = true
	t[name] = n
}

func (t simTree) mkdirs(name string) error {
	switch n := t[name]; {
	case !path.IsAbs(name):
		return syscall.EINVAL
	case n != nil && !n.IsDir():
		return syscall.ENOTDIR
	case n != nil:
		return nil
	}
	if err := t.mkdirs(path.Dir(name)); err != nil {
		return err
	}
	t.add(name, &simNode{in: map[string]bool{}})
	return nil
}

func (t simTree) write(name string, data []byte) error {
	if dir := t[path.Dir(name)]; dir == nil || !dir.IsDir() {
		return syscall.ENOENT
	}
	t.add(name, &simNode{data: data})
	return nil
}

// remove unlinks a file, or removes an empty directory.
func (t simTree) remove(name string) error {
	n := t[name]
	switch {
	case n == nil:
		return syscall.ENOENT
	case len(n.in) > 0:
		return syscall.ENOTEMPTY
	}
	delete(t[path.Dir(name)].in, n.name)
	delete(t, name)
	return nil
}

func (t simTree) rename(from, to string) error {
	n := t[from]
	if n == nil {
		return syscall.ENOENT
	}
	if err := t.remove(from); err != nil {
		return err
	}
	t.add(to, n)
	return nil
}

// names returns the names in a directory, sorted; none for a missing path or a file.
func (t simTree) names(dir string) []string {
	n := t[dir]
	if n == nil || len(n.in) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(n.in))
}

// below returns the paths below a directory, sorted.
func (t simTree) below(dir string) []string {
	var below []string
	for name := range t {
		if strings.HasPrefix(name, dir+"/") {
			below = append(below, name)
		}
	}
	slices.Sort(below)
	return below
}
