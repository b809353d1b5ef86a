package fsusage

import (
	"errors"
	"slices"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

const (
	// window is how many of the deepest directories on the way are open.
	window = 32
	// mostLinks is how many files with several names are remembered.
	mostLinks = 1 << 20
	// mostDeep is for file systems that have no end.
	mostDeep = 1 << 20
)

// A progress is how far a walk has come: depth first, without recursion.
//
//	stack[:low]   closed, to be opened again through ".."
//	stack[low:]   open, while somebody is at work
type progress struct {
	home  identity
	tree  Tree
	links map[file]struct{} // those that have been counted and have more names
	stack []*frame
	low   int
	lack  error // why it cannot be done now
}

// A file is one, whatever its names.
type file struct{ device, inode uint64 }

// A frame is a directory on the way from the top to where the walk is.
type frame struct {
	identity
	name   string // in the one before
	fd     int    // -1: closed
	next   int64  // where in the directory to read on
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

func (p *progress) of() identity { return p.home }

// goOn walks to the end, or until stop. Nothing is open afterwards. After another error
// than errPaused it has lost its way.
func (p *progress) goOn(top tree, stop func() bool) error {
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
			p.miss(err)
			p.pop(top)
		case ok:
			p.entry(f, e)
		default:
			p.pop(top)
		}
	}
	return p.lack
}

// descend opens the directories on the way anew. The way ends where one is another by
// now, and goes on beside it.
func (p *progress) descend(top tree) {
	p.closeAll()
	fd, err := unix.Openat(top.fd, ".", toRead, 0)
	if err != nil {
		p.miss(err)
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

// closeUpper closes the uppermost directory that is open if, of the first n, too many
// are.
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

// entry counts one entry, and goes down if it is a directory.
func (p *progress) entry(f *frame, e beneath.Entry) {
	is, err := look(f.fd, e.Name, 0)
	if err != nil {
		p.miss(err)
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
		p.miss(err)
		return
	}
	p.stack = append(p.stack, &frame{identity: id, name: e.Name, fd: fd})
	p.closeUpper(len(p.stack))
}

// miss counts what cannot be read, but not what is gone, another thing or another's by
// now.
func (p *progress) miss(err error) {
	if p.noteLack(err); p.lack == nil && !isOneOf(err, unix.ENOENT, unix.ENOTDIR, unix.ELOOP, unix.EXDEV) {
		p.tree.Unread++
	}
}

// noteLack keeps an error that is this process's or the machine's, and says nothing of
// the directory.
func (p *progress) noteLack(err error) {
	if beneath.IsShortage(err) {
		p.lack = err
	}
}

func isOneOf(err error, all ...error) bool {
	return slices.ContainsFunc(all, func(one error) bool { return errors.Is(err, one) })
}

// count reports whether it has counted what was not counted before.
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

// pop goes back up. If ".." is another directory by now, the way is looked for from the
// top.
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
	f, err := look(fd, "", unix.AT_EMPTY_PATH)
	return fd, f.identity, err
}
