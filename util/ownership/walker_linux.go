package ownership

import (
	"errors"

	"golang.org/x/sys/unix"
)

const (
	// window is how many of the deepest directories on a worker's way are open.
	window = 32
	// maxDepth is for file systems that have no end.
	maxDepth = 1_000_000
	// maxSwaps is how often an entry may turn from a directory to something else and
	// back before it is given up.
	maxSwaps = 8
	// worthLending is how many bytes of names are more work than to start a worker is.
	worthLending = 2 << 10
)

// A walker is one worker's way through a tree, depth first, without recursion.
//
//	stack[0]            where it began: always open
//	stack[1:low]        closed, to be opened again through ".."
//	stack[low:]         open
type walker struct {
	*work
	stack []*frame
	low   int
	// changing: the last entry had to be opened and changed, so the next one probably
	// has to be, too, and is not looked at before.
	changing bool
}

// run ends with nothing open.
func (w *walker) run() {
	for len(w.stack) > 0 && w.goOn() {
		f := w.stack[len(w.stack)-1]
		e, ok, err := w.read(f)
		switch {
		case err != nil:
			w.giveUp(f, err)
		case ok:
			w.entry(f, e)
		default:
			w.pop()
		}
	}
	w.drop()
}

// read returns the directory's next entry.
func (w *walker) read(f *frame) (entry, bool, error) {
	for {
		if e, ok := f.unread.take(); ok {
			f.next = e.next
			return e, true, nil
		}
		if f.lent || !w.goOn() {
			return entry{}, false, nil
		}
		more, err := f.unread.refill(f.fd)
		if err != nil || !more {
			return entry{}, false, err
		}
		w.lend()
	}
}

// giveUp leaves a directory that cannot be read.
func (w *walker) giveUp(f *frame, err error) {
	if f.above == nil {
		w.stop(err)
		return
	}
	w.note(f.above, f.name, err)
	w.pop()
}

// entry sees to one entry, and goes down into a directory.
func (w *walker) entry(f *frame, e entry) {
	if badName(e.name) {
		w.note(f, e.name, unix.EINVAL)
		return
	}
	isDirectory := e.kind == unix.DT_DIR
	var err error
	for range maxSwaps {
		if !w.goOn() {
			return
		}
		if isDirectory {
			err = w.directory(f, e.name)
		} else {
			err = w.other(f, e.name)
		}
		if !isSwap(err) {
			break
		}
		isDirectory = !isDirectory
	}
	switch {
	case errors.Is(err, unix.EXDEV):
		w.tally.mounts.Add(1)
	case err != nil:
		w.note(f, e.name, err)
	}
}

// errIsDirectory: what was said to be none.
var errIsDirectory = errors.New("it is now a directory and now none")

func isSwap(err error) bool {
	return errors.Is(err, errIsDirectory) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// directory changes one before it is read: what is created in it from then on belongs
// to the group.
func (w *walker) directory(f *frame, name string) error {
	if len(w.stack) > maxDepth {
		return unix.ENAMETOOLONG
	}
	fd, err := openIn(f.fd, name, toList, w.home)
	if err != nil {
		return err
	}
	at, err := identify(fd)
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	s, _, err := stateOf(fd, "", unix.AT_EMPTY_PATH)
	if err == nil {
		err = w.settle(fd, s)
	}
	if err != nil {
		w.note(f, name, err) // what is in it is another matter
	}
	w.push(&frame{place: at, above: f, name: name, fd: fd})
	w.lend()
	return nil
}

// other sees to what is no directory.
func (w *walker) other(f *frame, name string) error {
	if w.apart && !w.changing {
		err := w.byName(f, name)
		if !errors.Is(err, errNoMode) {
			return err
		}
	} else if !w.changing {
		s, mounted, err := stateOf(f.fd, name, 0)
		switch {
		case err != nil:
			return err
		case mounted:
			return unix.EXDEV
		case s.kind == directory:
			return errIsDirectory
		case w.change(s).none():
			w.tally.seen.Add(1)
			return nil
		}
	}
	fd, err := openIn(f.fd, name, toLook, w.home)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	s, _, err := stateOf(fd, "", unix.AT_EMPTY_PATH)
	if err == nil && s.kind == directory {
		err = errIsDirectory
	}
	if err != nil {
		return err
	}
	return w.settle(fd, s)
}

// settle makes what a descriptor is of as it should be.
func (w *walker) settle(fd int, s state) error {
	w.tally.seen.Add(1)
	c := w.change(s)
	w.changing = c.chmod || !w.apart && c.chown
	if !c.none() {
		w.first()
	}
	if err := carryOut(fd, c, w.goOn); err != nil {
		return err
	}
	if !c.none() && w.goOn() {
		w.tally.changed.Add(1)
	}
	return nil
}

// lend gives half of what has been read, as far up as there is something, to another
// worker, if there may be one.
func (w *walker) lend() {
	from := w.lendable()
	if from == nil {
		return
	}
	select {
	case w.spare <- struct{}{}:
	default:
		return
	}
	half, err := from.half()
	if err != nil {
		<-w.spare
		return
	}
	borrower := &walker{work: w.work, stack: []*frame{half}, low: 1, changing: w.changing}
	w.all.Go(func() {
		borrower.run()
		<-w.spare
	})
}

// lendable is the uppermost directory that is open and has something to do, besides
// what is next here.
func (w *walker) lendable() *frame {
	if cap(w.spare) == len(w.spare) {
		return nil
	}
	last := len(w.stack) - 1
	for i, f := range w.stack {
		if i > 0 && i < w.low {
			continue
		}
		if i < last && len(f.unread.rest) > 0 || len(f.unread.rest) > worthLending {
			return f
		}
	}
	return nil
}

// push goes down into a directory, and closes the uppermost one that is open if there
// are too many.
func (w *walker) push(f *frame) {
	w.stack = append(w.stack, f)
	if len(w.stack)-w.low > window {
		w.stack[w.low].close()
		w.low++
	}
}

// pop goes back up, into a directory that is open then.
func (w *walker) pop() {
	i := len(w.stack) - 1
	f := w.stack[i]
	if i > 0 && w.stack[i-1].fd < 0 {
		if err := w.reopen(f, w.stack[i-1]); err != nil {
			w.note(w.stack[i-1], ".", err)
			w.drop()
			return
		}
		w.low = i - 1
	}
	f.close()
	w.stack = w.stack[:i]
}

var errMoved = errors.New("a directory was moved meanwhile")

// reopen opens the directory above, to read on. If ".." is another one by now the way
// back is lost.
func (w *walker) reopen(f, up *frame) error {
	fd, err := openAt(f.fd, "..", toList)
	if errors.Is(err, unix.ENOENT) {
		err = errMoved // out of what is mounted
	}
	if err != nil {
		return err
	}
	at, err := identify(fd)
	if err == nil && at != up.place {
		err = errMoved
	}
	if err == nil {
		_, err = unix.Seek(fd, up.next, unix.SEEK_SET)
	}
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	up.fd = fd
	return nil
}

// drop ends the walk where it is.
func (w *walker) drop() {
	for _, f := range w.stack {
		f.close()
	}
	w.stack = nil
}
