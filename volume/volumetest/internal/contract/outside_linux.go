package contract

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/volumekit/volumekit/internal/require"
)

// An outside is a directory of the node that does not belong to the volume, with a file and two directories to
// which the pod makes links.
type outside struct {
	*contract
	root, file, missing string
	dir, other          string // directories, the first with entries of the same paths as the replaced one
	hardLink            bool
	before              map[string]outsideEntry
}

// An outsideEntry is the state of a file or directory, as text for the difference in a message.
type outsideEntry struct{ mode, owners, modified, changed, content string }

// newOutside returns an outside, of which dir has the entries below.
func (c *contract) newOutside(below map[string]fs.FileMode) outside {
	c.Helper()
	root := c.tempDir()
	o := outside{
		contract: c, root: root,
		file: filepath.Join(root, "file"), missing: filepath.Join(root, "missing"), dir: filepath.Join(root, "directory"),
		other: filepath.Join(root, "other"),
	}
	write := func(file string) {
		require.NoError(c, os.MkdirAll(filepath.Dir(file), 0o705))
		require.NoError(c, os.WriteFile(file, []byte("precious"), 0o604))
	}
	write(filepath.Join(o.dir, "volumetest-file"))
	require.NoError(c, os.Mkdir(o.other, 0o705))
	for name, kind := range below {
		if kind == fs.ModeDir {
			require.NoError(c, os.MkdirAll(filepath.Join(o.dir, name), 0o705))
		} else {
			write(filepath.Join(o.dir, name))
		}
	}
	require.NoError(c, os.WriteFile(o.file, []byte("precious"), 0o604))
	old := time.Unix(1e9, 0) // no change has this time
	for path := range o.read() {
		require.NoError(c, os.Chtimes(path, old, old))
	}
	return o
}

// remember reads the state before the calls of the plugin. With a hard link in the volume the time of the last
// change does not count: the removal of the link changes it.
func (o *outside) remember(hardLink bool) {
	o.Helper()
	o.hardLink = hardLink
	o.before = o.read()
}

// read returns the state of all entries, by path.
func (o outside) read() map[string]outsideEntry {
	o.Helper()
	entries := map[string]outsideEntry{}
	require.NoError(o, filepath.WalkDir(o.root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		uid, gid, _ := ownersOf(info)
		is := outsideEntry{mode: info.Mode().String(), owners: fmt.Sprintf("%d:%d", uid, gid), modified: textOf(info.ModTime())}
		if !o.hardLink {
			is.changed = textOf(time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix()))
		}
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			is.content = string(content)
		}
		entries[path] = is
		return nil
	}))
	return entries
}

func textOf(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

func (o outside) requireUnchanged(message string, args ...any) {
	o.Helper()
	require.Equal(o, o.before, o.read(), append([]any{message}, args...)...)
}
