package recordstore_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/recordstore"
)

const limit = 1000

// newDir returns a directory of records that does not exist yet, with its path.
func newDir(t *testing.T) (d recordstore.Dir, at string) {
	t.Helper()
	root := t.TempDir()
	d = recordstore.Dir{Root: root, Path: "a/records", Temporary: "../new/*.new", Suffix: ".json", Mode: 0o700, Limit: limit}
	return d, filepath.Join(root, d.Path)
}

// inTime returns the result of a call that must not wait.
func inTime(t *testing.T, call func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(10 * time.Second):
		t.Fatal("the call waits")
		return nil
	}
}

// entries make an entry of the kind at a path; outside is a file elsewhere below the same root.
var entries = map[string]func(t *testing.T, at, outside string) error{
	"pipe":            func(_ *testing.T, at, _ string) error { return syscall.Mkfifo(at, 0o600) },
	"directory":       func(_ *testing.T, at, _ string) error { return os.Mkdir(at, 0o700) },
	"symbolic link":   func(_ *testing.T, at, outside string) error { return os.Symlink(relative(at, outside), at) },
	"link to nothing": func(_ *testing.T, at, _ string) error { return os.Symlink("missing", at) },
	"link out":        func(_ *testing.T, at, _ string) error { return os.Symlink("/etc/passwd", at) },
	"hard link":       func(_ *testing.T, at, outside string) error { return os.Link(outside, at) },
	"left over":       func(_ *testing.T, at, _ string) error { return os.WriteFile(at, []byte(`{"cut`), 0o400) },
	"socket": func(t *testing.T, at, _ string) error {
		t.Chdir(filepath.Dir(at)) // the address of a socket is short
		l, err := net.Listen("unix", filepath.Base(at))
		if err == nil {
			t.Cleanup(func() { _ = l.Close() })
		}
		return err
	},
}

func relative(from, to string) string {
	rel, _ := filepath.Rel(filepath.Dir(from), to)
	return rel
}

// TestEntryAtRecord: an entry that is not a regular file is refused at once, by each way to read it, and a
// removal removes it: of a symbolic link the link alone, its target stays.
func TestEntryAtRecord(t *testing.T) {
	for kind, plant := range entries {
		if kind == "hard link" || kind == "left over" {
			continue // regular files
		}
		t.Run(kind, func(t *testing.T) {
			d, at := newDir(t)
			require.NoError(t, d.Create())
			outside := filepath.Join(d.Root, "outside")
			require.NoError(t, os.WriteFile(outside, []byte("precious"), 0o600))
			require.NoError(t, plant(t, filepath.Join(at, "r.json"), outside))
			err := inTime(t, func() error { _, err := d.Read("r.json"); return err })
			require.ErrorIs(t, err, recordstore.ErrNotRegular)
			require.Equal(t, strings.Contains(kind, "link"), strings.Contains(err.Error(), "symbolic link"), err)
			var visited []string
			require.NoError(t, inTime(t, func() error {
				return d.Each(func(name string, text []byte, err error) {
					require.ErrorIs(t, err, recordstore.ErrNotRegular)
					require.Empty(t, text)
					visited = append(visited, name)
				})
			}))
			require.Equal(t, []string{"r.json"}, visited)
			require.NoError(t, inTime(t, func() error { return d.Remove("r.json") }))
			require.NoError(t, d.Remove("r.json"))
			_, err = d.Read("r.json")
			require.ErrorIs(t, err, fs.ErrNotExist)
			requireContent(t, "precious", outside)
		})
	}
}

// TestDeviceAtRecord: a device is not opened.
func TestDeviceAtRecord(t *testing.T) {
	d := recordstore.Dir{Root: "/dev", Path: ".", Limit: limit}
	_, err := d.Read("null")
	require.ErrorIs(t, err, recordstore.ErrNotRegular)
}

// TestEntryAtTemporary: an entry at the temporary name, such as the rest of a write before a crash, is replaced.
// It is neither followed nor written to.
func TestEntryAtTemporary(t *testing.T) {
	for kind, plant := range entries {
		t.Run(kind, func(t *testing.T) {
			d, at := newDir(t)
			require.NoError(t, d.Write("other.json", []byte("other")))
			temporary := filepath.Join(at, "../new/r.json.new")
			outside := filepath.Join(d.Root, "outside")
			require.NoError(t, os.WriteFile(outside, []byte("precious"), 0o600))
			require.NoError(t, plant(t, temporary, outside))
			require.Equal(t, map[string]string{"other.json": "other"}, all(t, d))
			require.NoError(t, inTime(t, func() error { return d.Write("r.json", []byte("text")) }))
			require.Equal(t, map[string]string{"other.json": "other", "r.json": "text"}, all(t, d))
			requireContent(t, "precious", outside)
			info, err := os.Lstat(filepath.Join(at, "r.json"))
			require.NoError(t, err)
			require.Equal(t, fs.FileMode(0o600), info.Mode())
			require.NoFileExists(t, temporary)

			require.NoError(t, plant(t, temporary, outside))
			require.NoError(t, d.Remove("r.json"))
			_, err = os.Lstat(temporary)
			require.ErrorIs(t, err, fs.ErrNotExist)
			requireContent(t, "precious", outside)
		})
	}
}

// calls are the calls on a directory, except Remove on a missing one.
func calls(d recordstore.Dir) map[string]func() error {
	return map[string]func() error{
		"read":   func() error { _, err := d.Read("r.json"); return err },
		"write":  func() error { return d.Write("r.json", nil) },
		"remove": func() error { return d.Remove("r.json") },
		"each":   func() error { return d.Each(func(string, []byte, error) {}) },
		"create": d.Create,
	}
}

// TestPipeAtDirectory: no call waits for a pipe in place of the directory, its parent or the root.
func TestPipeAtDirectory(t *testing.T) {
	for _, pipe := range []string{"a/records", "a", "."} {
		d, _ := newDir(t)
		d.Root = filepath.Join(d.Root, "root")
		at := filepath.Join(d.Root, pipe)
		require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o700))
		require.NoError(t, syscall.Mkfifo(at, 0o600))
		for name, call := range calls(d) {
			require.Error(t, inTime(t, call), "%s %s", pipe, name)
		}
	}
}

// TestLinkOutOfRoot: the path of the directory does not lead out of the root.
func TestLinkOutOfRoot(t *testing.T) {
	d, at := newDir(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(outside+"/r.json", []byte("precious"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Dir(at), 0o700))
	require.NoError(t, os.Symlink(outside, at))
	for name, call := range calls(d) {
		require.Error(t, call(), name)
	}
	requireContent(t, "precious", outside+"/r.json")
}

// TestSize: a record of the largest size is read and written; one more byte is an error that states the limit.
func TestSize(t *testing.T) {
	d, at := newDir(t)
	most := strings.Repeat("a", limit)
	require.NoError(t, d.Write("r.json", []byte(most)))
	text, err := d.Read("r.json")
	require.NoError(t, err)
	require.Equal(t, most, string(text))

	var tooLarge *recordstore.TooLargeError
	require.ErrorAs(t, d.Write("r.json", []byte(most+"a")), &tooLarge)
	require.Equal(t, map[string]string{"r.json": most}, all(t, d))

	require.NoError(t, os.WriteFile(filepath.Join(at, "r.json"), []byte(most+"a"), 0o600))
	_, err = d.Read("r.json")
	require.ErrorAs(t, err, &tooLarge)
	require.EqualError(t, tooLarge, "a record must have at most 1000 bytes")
	require.NoError(t, os.Truncate(filepath.Join(at, "r.json"), 1<<40))
	_, err = d.Read("r.json")
	require.ErrorAs(t, err, &tooLarge)

	// A file of /proc says that it has no bytes.
	_, err = recordstore.Dir{Root: "/proc/self", Path: ".", Limit: 10}.Read("maps")
	require.ErrorAs(t, err, &tooLarge)
}

// TestMissing: Read and Each report a missing directory, and the removal of a record succeeds there. A write
// creates it, except with MustExist. A missing root is an error for each call.
func TestMissing(t *testing.T) {
	d, at := newDir(t)
	_, err := d.Read("r.json")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.NoError(t, d.Remove("r.json"))
	require.ErrorIs(t, d.Each(nil), fs.ErrNotExist)
	strict := d
	strict.MustExist = true
	require.ErrorIs(t, strict.Write("r.json", nil), fs.ErrNotExist)
	require.ErrorIs(t, strict.Remove("r.json"), fs.ErrNotExist)
	require.NoDirExists(t, filepath.Dir(at))
	for _, missing := range []string{"", "../new", ".."} {
		require.NoError(t, os.RemoveAll(filepath.Join(at, missing)))
		require.NoError(t, d.Write("r.json", []byte("text")))
		require.NoError(t, os.WriteFile(filepath.Join(at, "notes"), []byte("no record"), 0o600))
		require.Equal(t, map[string]string{"r.json": "text"}, all(t, d))
	}
	require.NoError(t, strict.Write("r.json", nil))
	info, err := os.Stat(at)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())

	d.Root = filepath.Join(d.Root, "missing")
	for name, call := range calls(d) {
		require.ErrorIs(t, call(), fs.ErrNotExist, name)
	}
}

// TestOrder: Each visits records by name, also if visit removes and writes records.
func TestOrder(t *testing.T) {
	d, _ := newDir(t)
	names := []string{"a.json", "b.json", "c.json", "d.json", "e.json", "f.json", "g.json", "h.json"}
	for i := range names {
		require.NoError(t, d.Write(names[len(names)-1-i], nil))
	}
	var visited []string
	visit := func(name string, _ []byte, err error) {
		require.NoError(t, err)
		visited = append(visited, name)
	}
	require.NoError(t, d.Each(visit))
	require.Equal(t, names, visited)
	visited = nil
	require.NoError(t, d.Each(func(name string, text []byte, err error) {
		visit(name, text, err)
		require.NoError(t, d.Remove("d.json"))
		require.NoError(t, d.Write("z.json", nil))
	}))
	require.Equal(t, slices.Concat(names[:3], names[4:]), visited)
}

// TestSyncs pins what each change syncs, in which order, and the entries of the directory of the records then.
func TestSyncs(t *testing.T) {
	d, at := newDir(t)
	d.Path, at = "a/b/records", filepath.Join(d.Root, "a/b/records")
	var synced []string
	recordstore.SetSync(t, func(f *os.File) error {
		name, err := filepath.Rel(d.Root, f.Name())
		require.NoError(t, err)
		entries, _ := filepath.Glob(at + "/*")
		for i := range entries {
			entries[i] = filepath.Base(entries[i])
		}
		synced = append(synced, strings.Join(append([]string{name}, entries...), " "))
		return f.Sync()
	})
	for _, change := range []struct {
		what, syncs string
		call        func() error
	}{
		{"new", "., a, a/b, ., a, a/b, a/b/new/r.json.new, a/b/records r.json", func() error { return d.Write("r.json", nil) }},
		{"write", "a/b/new/s.json.new r.json, a/b/records r.json s.json", func() error { return d.Write("s.json", nil) }},
		{"remove", "a/b/records s.json", func() error { return d.Remove("r.json") }},
		{"remove again", "a/b/records s.json", func() error { return d.Remove("r.json") }},
		{"create", ". s.json, a s.json, a/b s.json, a/b/records s.json", d.Create},
	} {
		synced = nil
		require.NoError(t, change.call(), change.what)
		require.Equal(t, change.syncs, strings.Join(synced, ", "), change.what)
	}
}

// TestVolatile: volatile records need no sync.
func TestVolatile(t *testing.T) {
	d, at := newDir(t)
	d.Path, d.Volatile = "a/volatile", true
	recordstore.SetSync(t, func(*os.File) error { return syscall.EIO })
	require.NoError(t, d.Create())
	require.NoError(t, d.Write("r.json", []byte("1")))
	require.NoError(t, d.Write("r.json", []byte("2")))
	text, err := d.Read("r.json")
	require.NoError(t, err)
	require.Equal(t, "2", string(text))
	require.NoError(t, d.Remove("r.json"))
	require.NoFileExists(t, at+"/r.json")
	d.Path, d.MustExist = "a/missing", true
	require.ErrorIs(t, d.Write("r.json", nil), fs.ErrNotExist)
	require.ErrorIs(t, d.Remove("r.json"), fs.ErrNotExist)
}

// TestFailedSync: a change is not reported as durable if a sync has failed.
func TestFailedSync(t *testing.T) {
	d, _ := newDir(t)
	require.NoError(t, d.Write("r.json", nil))
	recordstore.SetSync(t, func(*os.File) error { return syscall.EIO })
	for name, call := range map[string]func() error{
		"create": d.Create,
		"write":  func() error { return d.Write("r.json", nil) },
		"remove": func() error { return d.Remove("r.json") },
	} {
		require.ErrorIs(t, call(), syscall.EIO, name)
	}
}

// TestFailedWrite: a failed write leaves no temporary file.
func TestFailedWrite(t *testing.T) {
	d, at := newDir(t)
	require.NoError(t, d.Create())
	require.NoError(t, os.MkdirAll(filepath.Join(at, "r.json/full"), 0o700))
	require.NoError(t, os.Mkdir(filepath.Join(at, "../new"), 0o700))
	require.Error(t, d.Write("r.json", []byte("text")))
	left, err := os.ReadDir(filepath.Join(at, "../new"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// TestRemovalBesideObstacle: a record is removed although its temporary file cannot be.
func TestRemovalBesideObstacle(t *testing.T) {
	d, at := newDir(t)
	require.NoError(t, d.Write("r.json", nil))
	require.NoError(t, os.MkdirAll(filepath.Join(at, "../new/r.json.new/full"), 0o700))
	require.ErrorIs(t, d.Remove("r.json"), syscall.ENOTEMPTY)
	require.Empty(t, all(t, d))
}

// TestBelow returns paths below a root, and refuses others.
func TestBelow(t *testing.T) {
	for dir, want := range map[string]string{"/root/a/b": "a/b", "/root": ".", "/rooted": "", "/": "", "/root/../etc": ""} {
		rest, err := recordstore.Below("/root", dir)
		require.Equal(t, want == "", err != nil, dir)
		require.Equal(t, want, rest, dir)
	}
}

// TestReadersOfChangingRecord: readers find the old record or the new one, whole.
func TestReadersOfChangingRecord(t *testing.T) {
	d, _ := newDir(t)
	texts := []string{strings.Repeat("a", limit), strings.Repeat("b", limit/2)}
	require.NoError(t, d.Write("r.json", []byte(texts[0])))
	whileChanging(t, func(i int) error { return d.Write("r.json", []byte(texts[i%2])) }, func() {
		text, err := d.Read("r.json")
		if err != nil || string(text) != texts[0] && string(text) != texts[1] {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	})
}

// TestReadersOfExchangedRecord: a record that is exchanged for a link or a pipe is never followed, and no
// reader waits.
func TestReadersOfExchangedRecord(t *testing.T) {
	d, at := newDir(t)
	require.NoError(t, d.Create())
	other, record := filepath.Join(at, "other"), filepath.Join(at, "r.json")
	require.NoError(t, os.WriteFile(other, []byte("precious"), 0o600))
	var writer *os.File // of the pipe: a read of the pipe waits
	exchange := func(i int) error {
		if writer != nil {
			_ = writer.Close()
			writer = nil
		}
		if i%3 == 0 {
			return errors.Join(os.WriteFile(record+".new", []byte("text"), 0o600), os.Rename(record+".new", record))
		}
		err := os.Remove(record)
		if i%3 == 2 {
			return errors.Join(err, os.Symlink("other", record))
		}
		if err = errors.Join(err, syscall.Mkfifo(record, 0o600)); err == nil {
			writer, err = os.OpenFile(record, os.O_RDWR|syscall.O_NONBLOCK, 0)
		}
		return err
	}
	whileChanging(t, exchange, func() {
		err := inTime(t, func() error {
			text, err := d.Read("r.json")
			if err == nil && string(text) != "text" {
				t.Errorf("read %q", text)
			}
			return err
		})
		for _, expected := range []error{nil, recordstore.ErrNotRegular, fs.ErrNotExist, syscall.ELOOP} {
			if errors.Is(err, expected) {
				return
			}
		}
		t.Error(err)
	})
}

// TestIsSameRegular: a pipe is not accepted, also with the inode number of the entry.
func TestIsSameRegular(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(dir+"/a", nil, 0o600))
	require.NoError(t, os.WriteFile(dir+"/b", nil, 0o600))
	require.NoError(t, syscall.Mkfifo(dir+"/pipe", 0o600))
	info := func(name string) fs.FileInfo {
		info, err := os.Lstat(dir + name)
		require.NoError(t, err)
		return info
	}
	require.True(t, recordstore.IsSameRegular(info("/a"), info("/a")))
	require.False(t, recordstore.IsSameRegular(info("/a"), info("/b")))
	require.False(t, recordstore.IsSameRegular(info("/pipe"), info("/pipe")))
}

// TestLinkDuringWrite: a write does not follow a symbolic link that another process creates at the temporary name
// during the write.
func TestLinkDuringWrite(t *testing.T) {
	d, at := newDir(t)
	require.NoError(t, d.Write("r.json", []byte("text")))
	outside, temporary := filepath.Join(d.Root, "outside"), filepath.Join(at, "../new/r.json.new")
	require.NoError(t, os.WriteFile(outside, []byte("precious"), 0o600))
	write := func(int) error {
		if err := d.Write("r.json", []byte("text")); !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	whileChanging(t, write, func() { _ = os.Symlink(relative(temporary, outside), temporary) })
	requireContent(t, "precious", outside)
}

// whileChanging calls read in two goroutines, while a third changes a record.
func whileChanging(t *testing.T, change func(i int) error, read func()) {
	t.Helper()
	end := time.Now().Add(time.Second)
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() {
			for time.Now().Before(end) {
				read()
			}
		})
	}
	for i := 0; time.Now().Before(end); i++ {
		if err := change(i); err != nil {
			t.Error(err)
			break
		}
	}
	group.Wait()
}

// all returns the contents of all records, none of which is broken.
func all(t *testing.T, d recordstore.Dir) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, d.Each(func(name string, text []byte, err error) {
		require.NoError(t, err)
		found[name] = string(text)
	}))
	return found
}

func requireContent(t *testing.T, want, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(text))
}
