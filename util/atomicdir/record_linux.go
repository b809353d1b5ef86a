package atomicdir

import (
	"hash/maphash"
	"sync"

	"golang.org/x/sys/unix"
)

// A record has the attributes of a set that a Write has read and found unchanged. The next
// Write for the same files queries only attributes.
type record struct {
	content uint64 // the files, from layout.hash
	set     string
	mount   uint64
	root    stamp
	dirs    []stamp // in the order of the layout, as the files are
	files   []file
}

// A file is a file of a recorded set.
type file struct {
	stamp
	reader *unix.FileHandle // nil: the content changes with the stamp, and need not be read
}

// A stamp identifies a version of an inode: the kernel advances the time of the last change,
// and no process can set it.
type stamp struct {
	device, inode uint64
	seconds       int64
	nanoseconds   uint32
}

// hash returns a hash of everything that isUnchanged compares. The options must come from
// withOwners.
func (l layout) hash(o Options) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	number := func(values ...int) {
		for _, n := range values {
			maphash.WriteComparable(&h, n)
		}
	}
	text := func(s string) {
		number(len(s))
		_, _ = h.WriteString(s)
	}
	number(int(o.dirMode()), len(l.dirs))
	uid, gid := o.owner(File{})
	number(uid, gid)
	for _, d := range l.dirs {
		text(d.path)
		number(len(d.files))
		for _, base := range d.files {
			f := l.files[join(d.path, base)]
			uid, gid := o.owner(f)
			number(int(o.fileMode(f)), uid, gid, len(f.Data))
			text(base)
			_, _ = h.Write(f.Data)
		}
	}
	return h.Sum64()
}

// seed is secret and different in each process: an author of files cannot make two sets with
// the same hash.
var seed = maphash.MakeSeed()

// records are the records of directories.
type records struct {
	mu     sync.Mutex
	byDir  map[string]*record
	stamps int // in all records
}

// recorded has the records of this process. A new process reads each set once.
var recorded records

// mostStamps limits the memory of all records, to about 10 MiB.
const mostStamps = 1 << 17

func (r *records) get(dir string) *record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byDir[dir]
}

// set replaces the record of a directory; nil deletes it. Arbitrary other records make room.
func (r *records) set(dir string, is *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(dir)
	if is == nil || is.size() > mostStamps {
		return
	}
	for other := range r.byDir {
		if r.stamps+is.size() <= mostStamps {
			break
		}
		r.remove(other)
	}
	if r.byDir == nil {
		r.byDir = map[string]*record{}
	}
	r.byDir[dir] = is
	r.stamps += is.size()
}

func (r *records) remove(dir string) {
	if is := r.byDir[dir]; is != nil {
		r.stamps -= is.size()
		delete(r.byDir, dir)
	}
}

// size returns the number of stamps of a record, with three for its other fields.
func (r *record) size() int { return len(r.dirs) + len(r.files) + 3 }
