package ownership

import (
	"errors"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// worthLending is how many bytes of names are more work than to start a worker is.
const worthLending = 2 << 10

// A frame that is lent is another worker's to read on: what is in Unread is all.
type (
	frame = beneath.Frame[lent]
	lent  bool
)

// A walker is one worker's way through a tree.
type walker struct {
	*work
	stack beneath.Stack[lent]
	order beneath.Order
	// changing: the last entry had to be opened and changed, so the next one probably
	// has to be, too, and is not looked at before.
	changing bool
}

// run ends with nothing open.
func (w *walker) run() {
	for len(w.stack.Frames) > 0 && w.GoOn() {
		f := w.stack.Top()
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
	w.stack.Drop()
}

// read returns the directory's next entry.
func (w *walker) read(f *frame) (beneath.Entry, bool, error) {
	for {
		if e, ok := f.Take(); ok {
			return e, true, nil
		}
		if bool(f.Note) || !w.GoOn() {
			return beneath.Entry{}, false, nil
		}
		more, err := f.RefillInOrder(&w.order)
		if err != nil || !more {
			return beneath.Entry{}, false, err
		}
		w.lend()
	}
}

// giveUp leaves a directory that cannot be read.
func (w *walker) giveUp(f *frame, err error) {
	if f.Above == nil {
		w.Stop(err)
		return
	}
	w.note(f.Above, f.Name, err)
	w.pop()
}

// entry sees to one entry, and goes down into a directory.
func (w *walker) entry(f *frame, e beneath.Entry) {
	if beneath.BadName(e.Name) {
		w.note(f, e.Name, unix.EINVAL)
		return
	}
	isDirectory := e.Kind == unix.DT_DIR
	var err error
	for range beneath.MaxSwaps {
		if !w.GoOn() {
			return
		}
		if isDirectory {
			err = w.directory(f, e.Name)
		} else {
			err = w.other(f, e.Name)
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
		w.note(f, e.Name, err)
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
	if w.stack.IsFull() {
		return unix.ENAMETOOLONG
	}
	fd, err := beneath.Open(f.FD, name, beneath.ToList, w.home.Mount)
	if err != nil {
		return err
	}
	at, err := beneath.Identify(fd)
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
	w.stack.Push(&frame{Place: at, Above: f, Name: name, FD: fd})
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
		s, mounted, err := stateOf(f.FD, name, 0)
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
	fd, err := beneath.Open(f.FD, name, beneath.ToLook, w.home.Mount)
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
	if err := carryOut(fd, c, w.GoOn); err != nil {
		return err
	}
	if !c.none() && w.GoOn() {
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
	half, err := from.Half()
	if err != nil {
		<-w.spare
		return
	}
	half.Note = true
	borrower := &walker{work: w.work, stack: beneath.NewStack(half), changing: w.changing}
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
	for f := range w.stack.Open {
		if n := f.Unread.Bytes(); n > 0 && f != w.stack.Top() || n > worthLending {
			return f
		}
	}
	return nil
}

// pop goes back up, into a directory that is open then.
func (w *walker) pop() {
	if err := w.stack.OpenAbove(); err != nil {
		w.note(w.stack.Top().Above, ".", err)
		w.stack.Drop()
		return
	}
	w.stack.Pop()
}
