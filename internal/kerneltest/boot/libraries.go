package boot

import (
	"debug/elf"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/kerneltest/initrd"
)

// libraries returns the files that a program's start requires: its loader, at the path in
// its header, and the shared libraries beside the loader. A static program has none. It
// supports Go programs that are linked with the C library and its parts alone.
func libraries(program string) ([]initrd.Entry, error) {
	loader, err := interpreter(program)
	if err != nil || loader == "" {
		return nil, err
	}
	resolved, err := filepath.EvalSymlinks(loader)
	if err != nil {
		return nil, err
	}
	l := linked{dir: filepath.Dir(resolved), seen: map[string]bool{}}
	if err := l.add(loader, resolved); err != nil {
		return nil, err
	}
	return l.entries, l.addNeeded(program)
}

// interpreter returns the path of the loader in a program's header, if there is one.
func interpreter(program string) (string, error) {
	f, err := elf.Open(program)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	section := f.Section(".interp")
	if section == nil {
		return "", nil
	}
	text, err := section.Data()
	return strings.TrimRight(string(text), "\x00"), err
}

// A linked holds the libraries found so far, all in one directory.
type linked struct {
	dir     string
	seen    map[string]bool // files and directories, by path
	entries []initrd.Entry
}

// addNeeded adds the libraries that a file needs, recursively.
func (l *linked) addNeeded(file string) error {
	f, err := elf.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	names, err := f.ImportedLibraries()
	if err != nil {
		return err
	}
	for _, name := range names {
		at := path.Join(l.dir, name)
		if l.seen[at] {
			continue
		}
		if err := l.add(at, at); err != nil {
			return err
		}
		if err := l.addNeeded(at); err != nil {
			return err
		}
	}
	return nil
}

// add adds a file, after the directories above it.
func (l *linked) add(at, source string) error {
	data, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	for i, c := range at {
		if dir := at[:i]; c == '/' && i > 0 && !l.seen[dir] {
			l.seen[dir] = true
			l.entries = append(l.entries, initrd.Entry{Name: dir[1:], Mode: initrd.Directory})
		}
	}
	l.seen[at] = true
	l.entries = append(l.entries, initrd.Entry{Name: at[1:], Mode: initrd.Executable, Data: data})
	return nil
}
