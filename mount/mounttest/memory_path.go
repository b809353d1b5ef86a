package mounttest

import (
	"io/fs"
	"path"
	"strings"
	"syscall"
	"time"
)

// A memoryEntry is an entry of a directory of [MemoryFiles]. The root has no name and no
// directory.
type memoryEntry struct {
	dir  *memoryNode
	name string
	node *memoryNode // nil: the name does not exist
}

// A lastLink says whether a symbolic link in the last component of a path is followed.
type lastLink int

const (
	followLast lastLink = iota
	keepLast
)

// resolve returns the entry at a path, whose directory exists. It follows symbolic links on
// the way.
func (m *MemoryFiles) resolve(name string, last lastLink) (memoryEntry, error) {
	if !path.IsAbs(name) || path.Clean(name) != name || strings.ContainsRune(name, 0) {
		return memoryEntry{}, syscall.EINVAL
	}
	at, rest := []memoryEntry{{node: m.root}}, strings.Split(name, "/")
	for links := 0; len(rest) > 0; {
		next, err := appendName(at, rest[0])
		if err != nil {
			return memoryEntry{}, err
		}
		rest = rest[1:]
		end := next[len(next)-1].node
		switch {
		case end == nil && hasNames(rest):
			return memoryEntry{}, syscall.ENOENT
		case end == nil || end.mode.Type() != fs.ModeSymlink || last == keepLast && len(rest) == 0:
			at = next
			continue
		}
		if links++; links > maxLinks {
			return memoryEntry{}, syscall.ELOOP
		}
		if path.IsAbs(end.link) {
			at = at[:1]
		}
		rest = append(strings.Split(end.link, "/"), rest...)
	}
	return at[len(at)-1], nil
}

// appendName appends one name to a path; "" and "." change nothing.
func appendName(at []memoryEntry, name string) ([]memoryEntry, error) {
	dir := at[len(at)-1].node
	switch {
	case dir == nil:
		return at, nil
	case !dir.mode.IsDir():
		return nil, syscall.ENOTDIR
	case name == "" || name == ".":
		return at, nil
	case name == "..":
		return at[:max(len(at)-1, 1)], nil
	}
	return append(at[:len(at):len(at)], memoryEntry{dir, name, dir.names[name]}), nil
}

// hasNames reports whether the rest of a path contains a name.
func hasNames(rest []string) bool {
	for _, name := range rest {
		if name != "" && name != "." {
			return true
		}
	}
	return false
}

// resolveExisting resolves a path that must exist.
func (m *MemoryFiles) resolveExisting(name string, last lastLink) (memoryEntry, error) {
	at, err := m.resolve(name, last)
	if err == nil && at.node == nil {
		err = syscall.ENOENT
	}
	return at, err
}

// checkRemovable returns the error of unlink(2) and rmdir(2).
func (e memoryEntry) checkRemovable() error {
	switch {
	case e.dir == nil:
		return syscall.EBUSY // the root
	case len(e.node.names) > 0:
		return syscall.ENOTEMPTY
	}
	return nil
}

// checkRenamable returns the error of rename(2).
func checkRenamable(from, to memoryEntry) error {
	switch {
	case from.node == nil:
		return syscall.ENOENT
	case from.dir == nil || to.dir == nil:
		return syscall.EBUSY
	case from.node.contains(to.dir):
		return syscall.EINVAL
	case to.node == nil || to.node == from.node:
		return nil
	case to.node.contains(from.dir):
		return syscall.ENOTEMPTY
	case from.node.mode.IsDir() && !to.node.mode.IsDir():
		return syscall.ENOTDIR
	case !from.node.mode.IsDir() && to.node.mode.IsDir():
		return syscall.EISDIR
	}
	return to.checkRemovable()
}

// contains reports whether a directory is n, or below it.
func (n *memoryNode) contains(dir *memoryNode) bool {
	if n == dir {
		return true
	}
	for _, child := range n.names {
		if child.contains(dir) {
			return true
		}
	}
	return false
}

func (n *memoryNode) info(base string) memoryInfo {
	size := int64(len(n.data))
	if n.mode.Type() == fs.ModeSymlink {
		size = int64(len(n.link))
	}
	return memoryInfo{base, size, n.mode, n.time, n}
}

// memoryInfo is a result of Lstat: a copy of the attributes.
type memoryInfo struct {
	name string
	size int64
	mode fs.FileMode
	time time.Time
	node *memoryNode
}

func (i memoryInfo) Name() string       { return i.name }
func (i memoryInfo) Size() int64        { return i.size }
func (i memoryInfo) Mode() fs.FileMode  { return i.mode }
func (i memoryInfo) ModTime() time.Time { return i.time }
func (i memoryInfo) IsDir() bool        { return i.mode.IsDir() }
func (i memoryInfo) Sys() any           { return nil }
