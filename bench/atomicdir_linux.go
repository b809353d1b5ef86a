package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/volumekit/volumekit/util/atomicdir"
	"golang.org/x/sys/unix"
)

// measureAtomicdir writes a set of files of 1 KiB, in memory and on disk. The peer is an
// [atomicWriter], the floor a [rawSet].
func measureAtomicdir(b *bench) error {
	memory, disk := filepath.Join(b.dir, "memory"), filepath.Join(b.dir, "disk")
	if err := makeAll(memory, disk); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", memory, "tmpfs", 0, ""); err != nil {
		return err
	}
	for _, dir := range []string{disk, memory} {
		for _, files := range []int{10, 100} {
			if err := measureSets(b, filepath.Join(dir, strconv.Itoa(files)), files); err != nil {
				return err
			}
		}
	}
	return nil
}

func measureSets(b *bench, dir string, files int) error {
	for _, work := range []struct {
		name    string
		changed int
		fresh   bool
	}{{"first", files, true}, {"all change", files, false}, {"one changes", 1, false}, {"none changes", 0, false}} {
		own := filepath.Join(dir, work.name)
		raw := &rawSet{}
		set := func(name string, write func(dir string, files map[string][]byte) error) side {
			return (&sets{dir: filepath.Join(own, name), files: files, changed: work.changed, fresh: work.fresh, write: write}).side()
		}
		err := b.measure(trial{
			work:  fmt.Sprintf("N files on %s, %s", kindOfDisk(filepath.Dir(dir)), work.name),
			size:  files,
			ours:  set("ours", b.writeSet),
			peer:  set("peer", func(dir string, files map[string][]byte) error { return atomicWriter{dir}.write(files) }),
			floor: set("floor", raw.write),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) writeSet(dir string, files map[string][]byte) error {
	all := make(map[string]atomicdir.File, len(files))
	for name, data := range files {
		all[name] = atomicdir.File{Data: data}
	}
	_, err := atomicdir.Write(b.ctx, dir, all, atomicdir.Options{})
	return err
}

// sets are written by one side: to a directory one after the other, or each to an empty one.
type sets struct {
	dir            string
	files, changed int
	fresh          bool // each set is written to an empty directory
	write          func(dir string, files map[string][]byte) error
	n              int                 // the number of the last set
	next           []map[string][]byte // the next sets
}

// setsPerRound is the number of sets that a round writes, so that its time is not that of
// cold caches.
const setsPerRound = 20

// settledAge is a time after which files do not look as if they were just written: a writer that
// recognizes files by their times must read younger ones.
const settledAge = 3 * time.Second

func (s *sets) side() side {
	if s.changed > 0 {
		return side{prepare: s.prepare, up: s.writeAll, seen: s.seen, per: setsPerRound}
	}
	same := s.content(0)
	up := func() error { return s.write(s.dir, same) }
	written := false
	return side{seen: s.seen, up: func() error {
		if written {
			return up()
		}
		written = true
		if err := errors.Join(makeAll(s.dir), up()); err != nil {
			return err
		}
		time.Sleep(settledAge)
		return up()
	}}
}

// dirOf returns the directory of one of the next sets.
func (s *sets) dirOf(i int) string {
	if s.fresh {
		return filepath.Join(s.dir, strconv.Itoa(i))
	}
	return s.dir
}

func (s *sets) seen() (string, error) { return visible(s.dirOf(len(s.next) - 1)) }

// prepare makes the next sets and their directories.
func (s *sets) prepare() error {
	if s.fresh {
		if err := os.RemoveAll(s.dir); err != nil {
			return err
		}
	}
	s.next = nil
	for i := range setsPerRound {
		s.n++
		s.next = append(s.next, s.content(s.changed))
		if err := makeAll(s.dirOf(i)); err != nil {
			return err
		}
	}
	if s.n == setsPerRound && !s.fresh {
		return s.write(s.dir, s.content(s.files))
	}
	return nil
}

func (s *sets) writeAll() error {
	for i, files := range s.next {
		if err := s.write(s.dirOf(i), files); err != nil {
			return err
		}
	}
	return nil
}

// content returns files, the first of which differ from those before.
func (s *sets) content(changed int) map[string][]byte {
	files := map[string][]byte{}
	for i := range s.files {
		data := make([]byte, 1024)
		if i < changed {
			copy(data, strconv.Itoa(s.n))
		}
		files["file-"+strconv.Itoa(i)] = data
	}
	return files
}

// A rawSet makes the system calls of a writer that keeps the last set in memory: it links
// unchanged files, and reads only the attributes of an unchanged set.
type rawSet struct {
	dir  string
	n    int
	last map[string][]byte
}

func (r *rawSet) write(dir string, files map[string][]byte) error {
	r.dir = dir
	r.n++
	old, err := os.Readlink(filepath.Join(r.dir, dataLink))
	if err != nil { // the directory is empty
		old, r.last = "", nil
	}
	if old != "" && r.equalsLast(files) {
		return r.statFiles(old, files)
	}
	set := fmt.Sprintf("..%d", r.n)
	if err := unix.Mkdir(filepath.Join(r.dir, set), dirMode); err != nil {
		return err
	}
	for name, data := range files {
		if err := r.file(old, set, name, data); err != nil {
			return err
		}
	}
	link := filepath.Join(r.dir, dataLink)
	if err := unix.Symlink(set, link+"_tmp"); err != nil {
		return err
	}
	if err := unix.Rename(link+"_tmp", link); err != nil {
		return err
	}
	r.last = files
	if old == "" {
		return r.link(files)
	}
	return r.remove(old, files)
}

func (r *rawSet) equalsLast(files map[string][]byte) bool {
	for name, data := range files {
		if !slices.Equal(r.last[name], data) {
			return false
		}
	}
	return true
}

func (r *rawSet) statFiles(set string, files map[string][]byte) error {
	var x unix.Statx_t
	for name := range files {
		if err := unix.Statx(unix.AT_FDCWD, filepath.Join(r.dir, set, name), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS, &x); err != nil {
			return err
		}
	}
	return nil
}

func (r *rawSet) file(old, set, name string, data []byte) error {
	path := filepath.Join(r.dir, set, name)
	if old != "" && slices.Equal(r.last[name], data) {
		return unix.Link(filepath.Join(r.dir, old, name), path)
	}
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, fileMode)
	if err != nil {
		return err
	}
	if _, err := unix.Write(fd, data); err != nil {
		return err
	}
	return unix.Close(fd)
}

func (r *rawSet) link(files map[string][]byte) error {
	for name := range files {
		if err := unix.Symlink(filepath.Join(dataLink, name), filepath.Join(r.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

func (r *rawSet) remove(set string, files map[string][]byte) error {
	for name := range files {
		if err := unix.Unlink(filepath.Join(r.dir, set, name)); err != nil {
			return err
		}
	}
	return unix.Rmdir(filepath.Join(r.dir, set))
}
