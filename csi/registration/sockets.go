package registration

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Limits of the search for sockets.
const (
	maxDepth   = 4
	maxSockets = 1024
)

// A found is a socket in the directory.
type found struct {
	path string
	id   fileID
}

// A fileID identifies a file.
type fileID struct {
	info os.FileInfo
	// handle is the file handle, which no later file has. Empty: the file system has none.
	handle string
}

// identify returns the identity of a file, and does not follow a symbolic link. If another file takes
// the place of the file meanwhile, the identity is that of neither.
func identify(path string) (fileID, error) {
	info, err := os.Lstat(path)
	return fileID{info, handleOf(path)}, err
}

// isSame reports whether two files are one. Without a handle that is a guess: a file system gives the
// number of a removed file to a later one, and both may have one time of creation, which a socket shows
// as its time of modification.
func (id fileID) isSame(other fileID) bool {
	return os.SameFile(id.info, other.info) && id.info.ModTime().Equal(other.info.ModTime()) && id.handle == other.handle
}

// A listing is the state of the directory.
type listing struct {
	sockets []found  // from the oldest to the newest
	dirs    []string // to watch, the directory itself first
	dropped int      // sockets above the limit
}

// list reads a directory and those below it. It follows no symbolic link below dir. Entries that
// vanish meanwhile, and directories below that cannot be read, are left out; the error is that of
// dir itself.
func list(dir string) (listing, error) {
	l := listing{dirs: []string{dir}}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, err
	}
	l.add(dir, entries, 1)
	slices.SortFunc(l.sockets, func(a, b found) int {
		return cmp.Or(a.id.info.ModTime().Compare(b.id.info.ModTime()), strings.Compare(a.path, b.path))
	})
	if l.dropped = max(0, len(l.sockets)-maxSockets); l.dropped > 0 {
		l.sockets = l.sockets[:maxSockets]
	}
	return l, nil
}

func (l *listing) add(dir string, entries []fs.DirEntry, depth int) {
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		switch {
		case strings.HasPrefix(entry.Name(), "."):
		case entry.IsDir() && depth < maxDepth && len(l.dirs) < maxSockets:
			l.dirs = append(l.dirs, path)
			if below, err := os.ReadDir(path); err == nil {
				l.add(path, below, depth+1)
			}
		case entry.Type() == fs.ModeSocket:
			if id, err := identify(path); err == nil && id.info.Mode().Type() == fs.ModeSocket {
				l.sockets = append(l.sockets, found{path, id})
			}
		}
	}
}

// pause returns the pause after a number of failures.
func (c *Config) pause(failures int) time.Duration {
	length := c.Backoff
	for range failures - 1 {
		if length >= c.MaxBackoff/2 {
			return c.MaxBackoff
		}
		length *= 2
	}
	return length
}
