package scrub

import (
	"errors"

	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// A walker is one worker's way through a tree.
type walker struct {
	*sweep
	stack beneath.Stack[lore]
	lent  bool // the first frame is another worker's, and only its descriptor ours
}

// run ends with nothing open.
func (w *walker) run() {
	for len(w.stack.Frames) > 0 && w.GoOn() {
		f := w.stack.Top()
		if w.lent && len(w.stack.Frames) == 1 {
			break
		}
		e, ok, err := w.read(f)
		switch {
		case err != nil:
			w.giveUp(f, err)
		case ok:
			w.entry(f, e)
		default:
			w.leave(f)
		}
	}
	w.drop()
}

// read returns the directory's next entry.
func (w *walker) read(f *frame) (beneath.Entry, bool, error) {
	for {
		if e, ok := f.Take(); ok {
			return e, true, nil
		}
		if !w.GoOn() {
			return beneath.Entry{}, false, nil
		}
		more, err := f.Refill()
		if err != nil || !more {
			return beneath.Entry{}, false, err
		}
	}
}

// giveUp leaves a directory that cannot be read.
func (w *walker) giveUp(f *frame, err error) {
	if f.Above == nil {
		w.Stop(err)
		return
	}
	w.note(f.Above, f.Name, err)
	f.Note.stuck.Store(true)
	w.leave(f)
}

// entry sees to one entry: it is gone afterwards, or noted, or on top of the stack.
func (w *walker) entry(f *frame, e beneath.Entry) {
	will := goes
	if f.Above == nil {
		will = w.fate(e.Name)
	}
	if will == stays {
		return
	}
	if badName(e.Name) != "" {
		w.note(f, e.Name, unix.EINVAL)
		return
	}
	kind := e.Kind
	for range beneath.MaxSwaps {
		if !w.GoOn() {
			return
		}
		if kind == unix.DT_UNKNOWN {
			kind, _ = kindOf(f.FD, e.Name)
		}
		again := false
		if kind == unix.DT_DIR {
			again = w.directory(f, e.Name, will)
			kind = unix.DT_REG
		} else {
			again = w.file(f, e.Name)
			kind = unix.DT_DIR
		}
		if !again {
			return
		}
	}
}

// file removes what is no directory, and reports whether it is one by now.
func (w *walker) file(f *frame, name string) (isDirectory bool) {
	size := w.weight(f, name)
	err, ok := w.remove(f, name, 0)
	switch {
	case !ok || errors.Is(err, unix.ENOENT):
	case err == nil:
		f.Note.removing.Store(true)
		w.tally.files.Add(1)
		w.tally.bytes.Add(size)
	case errors.Is(err, unix.EISDIR):
		return true
	default:
		w.note(f, name, err)
		w.skipSnapshots(err)
	}
	return false
}

// weight is what goes with the last name of a file.
func (w *walker) weight(f *frame, name string) int64 {
	var x unix.Statx_t
	if !w.weigh || unix.Statx(f.FD, name, beneath.Quiet, unix.STATX_TYPE|unix.STATX_NLINK|unix.STATX_SIZE, &x) != nil {
		return 0
	}
	if x.Mode&unix.S_IFMT != unix.S_IFREG || x.Nlink > 1 {
		return 0
	}
	return int64(x.Size)
}

// skipSnapshots leaves a .snapshot directory at the first sign that it is the server's:
// what it shows in there may be many times the volume.
func (w *walker) skipSnapshots(err error) {
	if !errors.Is(err, unix.EROFS) {
		return
	}
	for i := len(w.stack.Frames) - 1; i > 0; i-- {
		if w.stack.Frames[i].Name == ".snapshot" {
			w.note(w.stack.Frames[i].Above, ".snapshot", err)
			w.unwind(i)
			return
		}
	}
}

// unwind leaves the i-th directory and all below, as far as the way back is known.
func (w *walker) unwind(i int) {
	for len(w.stack.Frames) > i {
		f := w.stack.Top()
		f.Note.stuck.Store(true)
		f.Note.lent.Wait()
		if !w.reopen() {
			return
		}
		w.pop()
	}
}

// directory begins with a directory, or gives it to another worker, and reports
// whether it is none by now.
func (w *walker) directory(f *frame, name string, will fate) (isNone bool) {
	if w.stack.IsFull() {
		w.note(f, name, unix.ENAMETOOLONG)
		return false
	}
	fd, at, err := openIn(f.FD, name, w.root.id)
	switch {
	case err == nil:
		sub := &frame{Place: at, Above: f, Name: name, FD: fd, Note: lore{fate: will}}
		if !w.lend(f, sub) {
			w.stack.Push(sub)
		}
	case errors.Is(err, unix.ENOENT):
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return true
	case beneath.IsShortage(err):
		w.Stop(err)
	default:
		w.closed(f, name, will, err)
	}
	return false
}

// closed sees to a directory that must not be opened: if it is empty it can go.
func (w *walker) closed(f *frame, name string, will fate, cause error) {
	if errors.Is(cause, unix.EXDEV) {
		w.note(f, name, cause)
		return
	}
	if will == emptied {
		if !isRoots(f.FD, name) {
			w.note(f, name, cause)
		}
		return
	}
	err, ok := w.remove(f, name, unix.AT_REMOVEDIR)
	switch {
	case !ok:
	case err == nil:
		f.Note.removing.Store(true)
		w.tally.directories.Add(1)
	case !errors.Is(err, unix.ENOENT):
		w.note(f, name, cause)
	}
}

// isRoots reports whether a directory is that of a superuser who lets nobody in.
func isRoots(dir int, name string) bool {
	var x unix.Statx_t
	err := unix.Statx(dir, name, beneath.Quiet, unix.STATX_TYPE|unix.STATX_UID, &x)
	return err == nil && x.Uid == 0 && x.Mode&unix.S_IFMT == unix.S_IFDIR
}

// lend starts a worker for a directory, if there may be another one and there is
// something else to do here.
func (w *walker) lend(f, sub *frame) bool {
	if !f.Unread.HasDirectory() {
		return false
	}
	select {
	case w.spare <- struct{}{}:
	default:
		return false
	}
	base, err := f.Again()
	if err != nil {
		<-w.spare
		return false
	}
	sub.Above = base
	other := &walker{sweep: w.sweep, stack: beneath.NewStack(base, sub), lent: true}
	f.Note.lent.Go(func() {
		other.run()
		f.Note.learn(&base.Note)
		<-w.spare
	})
	return true
}

// leave goes back up from a directory whose end has been reached, and removes it.
func (w *walker) leave(f *frame) {
	f.Note.lent.Wait()
	if f.Above == nil {
		w.pop()
		return
	}
	if !w.GoOn() || !w.reopen() {
		return
	}
	up := w.stack.Frames[len(w.stack.Frames)-2]
	if !f.Note.stuck.Load() && f.Note.fate == goes && !w.rmdir(up, f) {
		return
	}
	w.pop()
}

// rmdir removes a directory that was read to its end, and reports whether it is done
// with it: another pass may be needed.
func (w *walker) rmdir(up, f *frame) (done bool) {
	err, ok := w.remove(up, f.Name, unix.AT_REMOVEDIR)
	switch {
	case !ok || errors.Is(err, unix.ENOENT):
	case err == nil:
		up.Note.removing.Store(true)
		w.tally.directories.Add(1)
	case errors.Is(err, unix.ENOTDIR): // it has another name by now
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		if rewind(f) {
			return false
		}
		w.note(up, f.Name, err)
	default:
		w.note(up, f.Name, err)
	}
	return true
}

// pop goes back up into a directory that is open.
func (w *walker) pop() {
	stuck := w.stack.Top().Note.stuck.Load()
	w.stack.Pop()
	if stuck && len(w.stack.Frames) > 0 {
		w.stack.Top().Note.stuck.Store(true)
	}
}

// reopen sees to it that the directory above is open. If ".." is another directory by
// now this worker stops, and there will be another pass.
func (w *walker) reopen() bool {
	if err := w.stack.OpenAbove(); err == nil {
		return true
	}
	w.noteLost()
	if w.lent {
		w.stack.Frames[0].Note.stuck.Store(true)
	}
	w.drop()
	return false
}

// drop ends the walk where it is.
func (w *walker) drop() {
	for _, f := range w.stack.Frames {
		f.Note.lent.Wait()
	}
	w.stack.Drop()
}
