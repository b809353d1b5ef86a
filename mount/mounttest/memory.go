package mounttest

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// MemoryFiles are [Files] in memory: directories, files, symbolic links and device nodes.
// The zero value has the directory "/" alone, and is ready for use. Methods are those of
// package os, and safe for concurrent use. They take absolute, clean paths with slashes,
// and fail with an [fs.PathError] that holds a syscall.Errno. Permissions are stored and
// not checked.
//
// Mounts of a Fake are not visible here: [Fake.RealPath] returns the path of a mounted file.
type MemoryFiles struct {
	mu   sync.Mutex // guards the tree
	root *memoryNode
}

var _ Files = (*MemoryFiles)(nil)

// A memoryNode is an inode. The type in mode decides which of the fields below are used.
type memoryNode struct {
	mode  fs.FileMode
	time  time.Time
	names map[string]*memoryNode // of a directory
	data  []byte                 // of a file
	link  string                 // of a symbolic link
}

func newMemoryNode(mode fs.FileMode) *memoryNode {
	n := &memoryNode{mode: mode, time: time.Now()}
	if mode.IsDir() {
		n.names = map[string]*memoryNode{}
	}
	return n
}

// Mkdir is as os.Mkdir.
func (m *MemoryFiles) Mkdir(name string, perm fs.FileMode) error {
	return m.create("mkdir", name, newMemoryNode(fs.ModeDir|perm.Perm()))
}

// MkdirAll is as os.MkdirAll.
func (m *MemoryFiles) MkdirAll(name string, perm fs.FileMode) error {
	info, err := m.stat("mkdir", name)
	switch {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return &fs.PathError{Op: "mkdir", Path: name, Err: syscall.ENOTDIR}
	case name == "/" || errors.Is(err, syscall.EINVAL):
		return err
	}
	if err := m.MkdirAll(path.Dir(name), perm); err != nil {
		return err
	}
	err = m.Mkdir(name, perm)
	if info, statErr := m.stat("mkdir", name); statErr == nil && info.IsDir() {
		return nil // another goroutine may have made it
	}
	return err
}

// Symlink is as os.Symlink.
func (m *MemoryFiles) Symlink(oldname, newname string) error {
	if oldname == "" {
		return &fs.PathError{Op: "symlink", Path: newname, Err: syscall.ENOENT}
	}
	link := newMemoryNode(fs.ModeSymlink | fs.ModePerm)
	link.link = oldname
	return m.create("symlink", newname, link)
}

// Mknod creates a file of a type: fs.ModeDevice, a block device, with fs.ModeCharDevice
// a character device; fs.ModeNamedPipe, fs.ModeSocket.
func (m *MemoryFiles) Mknod(name string, mode fs.FileMode) error {
	if mode.Type()&(fs.ModeDir|fs.ModeSymlink) != 0 {
		return &fs.PathError{Op: "mknod", Path: name, Err: syscall.EINVAL}
	}
	return m.create("mknod", name, newMemoryNode(mode.Type()|mode.Perm()))
}

// WriteFile is as os.WriteFile.
func (m *MemoryFiles) WriteFile(name string, data []byte, perm fs.FileMode) error {
	return m.withTree("write", name, func() error {
		at, err := m.resolve(name, followLast)
		switch {
		case err != nil:
			return err
		case at.node == nil:
			at.node = newMemoryNode(perm.Perm())
			at.dir.names[at.name] = at.node
		case at.node.mode.IsDir():
			return syscall.EISDIR
		}
		at.node.data, at.node.time = slices.Clone(data), time.Now()
		return nil
	})
}

// ReadFile is as os.ReadFile.
func (m *MemoryFiles) ReadFile(name string) (data []byte, err error) {
	err = m.withTree("read", name, func() error {
		at, err := m.resolveExisting(name, followLast)
		if err == nil && at.node.mode.IsDir() {
			err = syscall.EISDIR
		}
		if err == nil {
			data = slices.Clone(at.node.data)
		}
		return err
	})
	return data, err
}

// ReadDir is as os.ReadDir.
func (m *MemoryFiles) ReadDir(name string) (entries []fs.DirEntry, err error) {
	err = m.withTree("readdir", name, func() error {
		at, err := m.resolveExisting(name, followLast)
		if err != nil {
			return err
		}
		if !at.node.mode.IsDir() {
			return syscall.ENOTDIR
		}
		for base, node := range at.node.names {
			entries = append(entries, fs.FileInfoToDirEntry(node.info(base)))
		}
		return nil
	})
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// Remove is as os.Remove.
func (m *MemoryFiles) Remove(name string) error {
	return m.withTree("remove", name, func() error {
		at, err := m.resolveExisting(name, keepLast)
		if err == nil {
			err = at.checkRemovable()
		}
		if err == nil {
			delete(at.dir.names, at.name)
		}
		return err
	})
}

// Rename is as os.Rename.
func (m *MemoryFiles) Rename(oldname, newname string) error {
	return m.withTree("rename", oldname, func() error {
		from, err := m.resolve(oldname, keepLast)
		if err != nil {
			return err
		}
		to, err := m.resolve(newname, keepLast)
		if err == nil {
			err = checkRenamable(from, to)
		}
		if err == nil && to.node != from.node {
			delete(from.dir.names, from.name)
			to.dir.names[to.name] = from.node
		}
		return err
	})
}

// Lstat implements [Files].
func (m *MemoryFiles) Lstat(name string) (info fs.FileInfo, err error) {
	return m.info("lstat", name, keepLast)
}

// Readlink implements [Files].
func (m *MemoryFiles) Readlink(name string) (target string, err error) {
	err = m.withTree("readlink", name, func() error {
		at, err := m.resolveExisting(name, keepLast)
		if err == nil && at.node.mode.Type() != fs.ModeSymlink {
			err = syscall.EINVAL
		}
		if err == nil {
			target = at.node.link
		}
		return err
	})
	return target, err
}

// SameFile implements [Files].
func (m *MemoryFiles) SameFile(a, b fs.FileInfo) bool {
	one, isOne := a.(memoryInfo)
	other, isOther := b.(memoryInfo)
	return isOne && isOther && one.node == other.node
}

func (m *MemoryFiles) stat(op, name string) (fs.FileInfo, error) { return m.info(op, name, followLast) }

func (m *MemoryFiles) info(op, name string, last lastLink) (info fs.FileInfo, err error) {
	err = m.withTree(op, name, func() error {
		at, err := m.resolveExisting(name, last)
		if err == nil {
			info = at.node.info(path.Base(name))
		}
		return err
	})
	return info, err
}

// create adds a node under a name that does not exist.
func (m *MemoryFiles) create(op, name string, node *memoryNode) error {
	return m.withTree(op, name, func() error {
		at, err := m.resolve(name, keepLast)
		if err == nil && at.node != nil {
			err = syscall.EEXIST
		}
		if err == nil {
			at.dir.names[at.name] = node
		}
		return err
	})
}

// withTree runs work on the tree, and converts its error to an error of package os.
func (m *MemoryFiles) withTree(op, name string, work func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.root == nil {
		m.root = newMemoryNode(fs.ModeDir | 0o755)
	}
	if err := work(); err != nil {
		return &fs.PathError{Op: op, Path: name, Err: err}
	}
	return nil
}
