package ownership

import (
	"errors"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// worthLending is the size in bytes of unread names that justifies starting a worker.
const worthLending = 2 << 10

// A lent frame belongs to another worker: this worker reads only its Unread entries.
type (
	frame = beneath.Frame[lent]
	lent  bool
)

// A walker is the position of one worker in the tree.
type walker struct {
	*work
	stack beneath.Stack[lent]
	order beneath.Order
	// changing: the last entry had to be opened and changed, so the next one is opened
	// without a check by name before.
	changing bool
}

// run walks the stack's directories to their ends, and closes all descriptors.
func (w *walker) run() {
	for len(w.stack.Frames) > 0 && w.GoOn() {
		f := w.stack.Top()
		e, ok, err := w.nextEntry(f)
		switch {
		case err != nil:
			w.giveUp(f, err)
		case ok:
			w.changeEntry(f, e)
		default:
			w.leaveDirectory()
		}
	}
	w.stack.Drop()
}

// nextEntry returns the directory's next entry. ok is false at its end.
func (w *walker) nextEntry(f *frame) (beneath.Entry, bool, error) {
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
		w.shareEntries()
	}
}

// giveUp leaves an unreadable directory, and records it as unchanged. An unreadable root
// ends the work.
func (w *walker) giveUp(f *frame, err error) {
	if f.Above == nil {
		w.Stop(err)
		return
	}
	w.handleFailure(f.Above, f.Name, err)
	w.leaveDirectory()
}

// changeEntry changes one entry, and enters it if it is a directory. It tries again if the
// entry turns from a file into a directory or back meanwhile.
func (w *walker) changeEntry(f *frame, e beneath.Entry) {
	if beneath.BadName(e.Name) {
		w.handleFailure(f, e.Name, unix.EINVAL)
		return
	}
	isDirectory := e.Kind == unix.DT_DIR
	var err error
	for range beneath.MaxSwaps {
		if !w.GoOn() {
			return
		}
		if isDirectory {
			err = w.enterDirectory(f, e.Name)
		} else {
			err = w.changeFile(f, e.Name)
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
		w.handleFailure(f, e.Name, err)
	}
}

// errIsDirectory: an entry that was not a directory has become one.
var errIsDirectory = errors.New("the entry changes between a directory and another type")

func isSwap(err error) bool {
	return errors.Is(err, errIsDirectory) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)
}

// enterDirectory opens a directory and pushes it on the stack. It changes the directory
// before its entries are read, so that entries created from then on belong to the group.
func (w *walker) enterDirectory(f *frame, name string) error {
	if w.stack.IsFull() {
		return unix.ENAMETOOLONG
	}
	fd, err := beneath.Open(f.FD, name, beneath.ToList, w.home.Mount)
	if err != nil {
		return err
	}
	s, at, err := stateAndPlace(fd)
	if err != nil {
		_ = unix.Close(fd)
		return err
	}
	err = w.changeOpened(fd, s)
	if err != nil {
		w.handleFailure(f, name, err) // its entries may still be changed
	}
	w.stack.Push(&frame{Place: at, Above: f, Name: name, FD: fd})
	w.shareEntries()
	return nil
}

// changeFile changes an entry that is not a directory.
func (w *walker) changeFile(f *frame, name string) error {
	if w.hasNoSubmounts && !w.changing {
		err := w.changeByName(f, name)
		if !errors.Is(err, errByDescriptor) {
			return err
		}
	} else if !w.changing {
		s, err := stateOfFile(f.FD, name)
		if err != nil {
			return err
		}
		if w.change(s).none() {
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
	return w.changeOpened(fd, s)
}

// changeOpened applies the needed change to a descriptor's file.
func (w *walker) changeOpened(fd int, s state) error {
	w.tally.seen.Add(1)
	c := w.change(s)
	w.changing = c.chmod || !w.hasNoSubmounts && c.chown
	if !c.none() {
		w.first()
	}
	if err := w.applyChange(fd, c); err != nil {
		return err
	}
	if !c.none() && w.GoOn() {
		w.tally.changed.Add(1)
	}
	return nil
}

// shareEntries passes half of the unread entries of the uppermost directory that has some to a new
// worker, unless all workers are busy.
func (w *walker) shareEntries() {
	from := w.shareableFrame()
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

// shareableFrame returns the uppermost open directory with unread entries, or nil. For the
// current directory only a large number of entries counts.
func (w *walker) shareableFrame() *frame {
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

// leaveDirectory returns to the directory above, and reopens it if necessary.
func (w *walker) leaveDirectory() {
	if err := w.stack.OpenAbove(); err != nil {
		w.recordFailure(w.stack.Top().Above, ".", err) // nobody knows what has not been seen
		w.stack.Drop()
		return
	}
	w.stack.Pop()
}
