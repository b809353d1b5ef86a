package fsusage

import (
	"errors"
	"slices"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

const (
	// window is the number of open directories, the deepest ones of the stack.
	window = 32
	// mostLinks limits the memory for files with several names.
	mostLinks = 1 << 20
	// mostDeep stops the walk through a file system without a bottom.
	mostDeep = 1 << 20
)

// A progress is the state of a walk: depth first, without recursion.
//
//	stack[:low]   closed, reopened through ".."
//	stack[low:]   open during a run
type progress struct {
	home  identity
	tree  Tree
	links map[file]struct{} // counted files with further names
	stack []*frame
	low   int
	lack  error // a lack of descriptors or memory, which ends the walk
}

// A file identifies a file by any of its names.
type file struct{ device, inode uint64 }

// A frame is a directory on the path from the top to the walk's position.
type frame struct {
	identity
	name   string // in the directory above
	fd     int    // -1: closed
	next   int64  // offset of the next entry
	unread beneath.Listing
}

func newProgress(top tree) *progress {
	p := &progress{home: top.identity, links: map[file]struct{}{}}
	p.count(top.found)
	if top.isDir {
		p.stack = []*frame{{identity: top.identity, fd: -1}}
	}
	return p
}

func (p *progress) root() identity { return p.home }

// resume walks until the end, or until stop reports true (errPaused), and closes all
// directories. After another error the walk has lost its position.
func (p *progress) resume(top tree, stop func() bool) error {
	defer p.closeAll()
	if len(p.stack) > 0 {
		p.descend(top)
	}
	for len(p.stack) > 0 {
		if p.lack != nil {
			return p.lack
		}
		if stop() {
			return errPaused
		}
		f := p.stack[len(p.stack)-1]
		e, ok, err := f.read()
		switch {
		case err != nil:
			p.countUnreadable(err)
			p.pop(top)
		case ok:
			p.entry(f, e)
		default:
			p.pop(top)
		}
	}
	return p.lack
}

// descend reopens the directories of the stack. If one has been replaced meanwhile the
// stack ends above it, and the walk continues with the next entry.
func (p *progress) descend(top tree) {
	p.closeAll()
	fd, err := unix.Openat(top.fd, ".", toRead, 0)
	if err != nil {
		p.countUnreadable(err)
		p.stack = nil
		return
	}
	for i, f := range p.stack {
		if i > 0 {
			next, id, err := openBelow(fd, f.name, p.home)
			if err == nil && id != f.identity {
				_ = unix.Close(next)
				err = unix.ESTALE
			}
			if err != nil {
				p.noteLack(err)
				p.stack = p.stack[:i]
				return
			}
			fd = next
		}
		f.fd = fd
		if _, err := unix.Seek(fd, f.next, unix.SEEK_SET); err != nil {
			f.next, f.unread = 0, beneath.Listing{}
		}
		p.closeUpper(i + 1)
	}
}

// closeUpper closes the uppermost open directory of the first n if more than window are
// open.
func (p *progress) closeUpper(n int) {
	if n-p.low > window {
		p.stack[p.low].close()
		p.low++
	}
}

func (p *progress) closeAll() {
	for _, f := range p.stack {
		f.close()
	}
	p.low = 0
}

func (f *frame) close() {
	if f.fd >= 0 {
		_ = unix.Close(f.fd)
	}
	f.fd, f.unread = -1, beneath.Listing{}
}

// read returns the directory's next entry.
func (f *frame) read() (e beneath.Entry, ok bool, err error) {
	for {
		if e, ok := f.unread.Take(); ok {
			f.next = e.Next
			return e, true, nil
		}
		more, err := f.unread.Refill(f.fd)
		if err != nil || !more {
			return beneath.Entry{}, false, err
		}
	}
}

// entry counts an entry, and descends into a directory.
func (p *progress) entry(f *frame, e beneath.Entry) {
	is, err := statEntry(f.fd, e.Name, 0)
	if err != nil {
		p.countUnreadable(err)
		return
	}
	if !is.isIn(p.home) || !p.count(is) || !is.isDir {
		return
	}
	if len(p.stack) >= mostDeep {
		p.tree.Unread++
		return
	}
	fd, id, err := openBelow(f.fd, e.Name, p.home)
	if err != nil {
		p.countUnreadable(err)
		return
	}
	p.stack = append(p.stack, &frame{identity: id, name: e.Name, fd: fd})
	p.closeUpper(len(p.stack))
}

// countUnreadable counts an entry that cannot be read, but not one that was removed or replaced.
func (p *progress) countUnreadable(err error) {
	if p.noteLack(err); p.lack == nil && !isOneOf(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV) {
		p.tree.Unread++
	}
}

// noteLack keeps an error that concerns the process or the machine, not the directory.
func (p *progress) noteLack(err error) {
	if beneath.IsShortage(err) {
		p.lack = err
	}
}

func isOneOf(err error, all ...error) bool {
	return slices.ContainsFunc(all, func(one error) bool { return errors.Is(err, one) })
}

// count counts a file, and reports false for a further name of a counted one.
func (p *progress) count(is found) bool {
	if !is.isDir && is.names > 1 {
		one := file{is.device, is.inode}
		if _, again := p.links[one]; again {
			return false
		}
		if len(p.links) < mostLinks {
			p.links[one] = struct{}{}
		}
	}
	p.tree.Bytes += is.bytes
	p.tree.Inodes++
	return true
}

// pop returns to the directory above. If ".." is another directory by now, the walk descends
// again from the top.
func (p *progress) pop(top tree) {
	last := len(p.stack) - 1
	f := p.stack[last]
	defer f.close()
	p.stack = p.stack[:last]
	if last == 0 || p.stack[last-1].fd >= 0 {
		return
	}
	up := p.stack[last-1]
	fd, id, err := openUp(f.fd)
	if err == nil && id == up.identity {
		if _, err = unix.Seek(fd, up.next, unix.SEEK_SET); err == nil {
			up.fd, p.low = fd, last-1
			return
		}
	}
	if fd >= 0 {
		_ = unix.Close(fd)
	}
	p.descend(top)
}

func openUp(dir int) (int, identity, error) {
	fd, err := unix.Openat(dir, "..", toRead, 0)
	if err != nil {
		return -1, identity{}, err
	}
	f, err := statEntry(fd, "", unix.AT_EMPTY_PATH)
	return fd, f.identity, err
}
