package registration

import (
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/volumekit/volumekit/internal/socketfile"
)

// Limits of the search for sockets.
const (
	maxDepth   = 4
	maxSockets = 1024
)

// A found is a socket in the directory.
type found struct {
	path string
	id   socketfile.Identity
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
		return cmp.Or(a.id.Info.ModTime().Compare(b.id.Info.ModTime()), strings.Compare(a.path, b.path))
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
			if id, err := socketfile.Identify(path); err == nil && id.Info.Mode().Type() == fs.ModeSocket {
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
