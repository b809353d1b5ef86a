package scrub

import (
	"errors"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"golang.org/x/sys/unix"
)

// A walker is the position of one worker in the tree.
type walker struct {
	*sweep
	stack beneath.Stack[results]
	lent  bool // the first frame belongs to another worker; this worker closes its descriptor only
}

// run empties the stack's directories, and closes all descriptors.
func (w *walker) run() {
	for len(w.stack.Frames) > 0 && w.GoOn() {
		f := w.stack.Top()
		if w.lent && len(w.stack.Frames) == 1 {
			break
		}
		e, ok, err := w.nextEntry(f)
		switch {
		case err != nil:
			w.giveUp(f, err)
		case ok:
			w.removeEntry(f, e)
		default:
			w.leaveDirectory(f)
		}
	}
	w.drop()
}

// nextEntry returns the directory's next entry. ok is false at its end.
func (w *walker) nextEntry(f *frame) (beneath.Entry, bool, error) {
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

// giveUp leaves an unreadable directory, and records it. An unreadable root ends the work.
func (w *walker) giveUp(f *frame, err error) {
	if f.Above == nil {
		w.Stop(err)
		return
	}
	w.recordFailure(f.Above, f.Name, err)
	f.Note.stuck.Store(true)
	w.leaveDirectory(f)
}

// removeEntry removes an entry or records its failure. It pushes a directory on the stack.
func (w *walker) removeEntry(f *frame, e beneath.Entry) {
	will := deleted
	if f.Above == nil {
		will = w.fate(e.Name)
	}
	if will == kept {
		return
	}
	if input.CheckName(e.Name) != "" {
		w.recordFailure(f, e.Name, unix.EINVAL)
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
			again = w.enterDirectory(f, e.Name, will)
			kind = unix.DT_REG
		} else {
			again = w.removeFile(f, e.Name)
			kind = unix.DT_DIR
		}
		if !again {
			return
		}
	}
}

// removeFile unlinks an entry. It returns true if the entry is a directory.
func (w *walker) removeFile(f *frame, name string) (isDirectory bool) {
	err, ok := w.remove(f, name, 0)
	switch {
	case !ok || errors.Is(err, unix.ENOENT):
	case err == nil:
		f.Note.removing.Store(true)
		w.tally.files.Add(1)
	case errors.Is(err, unix.EISDIR):
		return true
	default:
		w.recordFailure(f, name, err)
		w.skipSnapshots(err)
	}
	return false
}

// skipSnapshots leaves a .snapshot directory at its first EROFS, which shows that it is a
// server's: its listed content may be many times the volume.
func (w *walker) skipSnapshots(err error) {
	if !errors.Is(err, unix.EROFS) {
		return
	}
	for i := len(w.stack.Frames) - 1; i > 0; i-- {
		if w.stack.Frames[i].Name == ".snapshot" {
			w.recordFailure(w.stack.Frames[i].Above, ".snapshot", err)
			w.unwind(i)
			return
		}
	}
}

// unwind leaves the i-th directory and all below it, unless the way back is lost.
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

// enterDirectory pushes a subdirectory on the stack, or passes it to another worker. It returns
// true if the entry is not a directory.
func (w *walker) enterDirectory(f *frame, name string, will fate) (isNone bool) {
	if w.stack.IsFull() {
		w.recordFailure(f, name, unix.ENAMETOOLONG)
		return false
	}
	fd, at, err := openIn(f.FD, name, w.root.id)
	if err == nil && at.Device != f.Device { // a subvolume
		if err = makeWritable(fd); err != nil {
			_ = unix.Close(fd)
		}
	}
	switch {
	case err == nil:
		sub := &frame{Place: at, Above: f, Name: name, FD: fd, Note: results{fate: will}}
		if !w.startWorker(f, sub) {
			w.stack.Push(sub)
		}
	case errors.Is(err, unix.ENOENT):
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return true
	case beneath.IsShortage(err):
		w.Stop(err)
	default:
		w.removeUnopened(f, name, will, err)
	}
	return false
}

// removeUnopened removes a directory that cannot be opened if it is empty, or records it.
func (w *walker) removeUnopened(f *frame, name string, will fate, cause error) {
	if errors.Is(cause, unix.EXDEV) {
		w.recordFailure(f, name, cause)
		return
	}
	if will == emptied {
		if !belongsToRoot(f.FD, name) {
			w.recordFailure(f, name, cause)
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
		w.recordFailure(f, name, cause)
	}
}

// belongsToRoot reports whether an entry is a directory that belongs to root.
func belongsToRoot(dir int, name string) bool {
	var x unix.Statx_t
	err := unix.Statx(dir, name, beneath.Quiet, unix.STATX_TYPE|unix.STATX_UID, &x)
	return err == nil && x.Uid == 0 && x.Mode&unix.S_IFMT == unix.S_IFDIR
}

// startWorker starts a worker for a subdirectory if the directory has more subdirectories to read
// and not all workers are busy.
func (w *walker) startWorker(f, sub *frame) bool {
	if !f.Unread.HasDirectory() {
		return false
	}
	select {
	case w.spare <- struct{}{}:
	default:
		return false
	}
	base, err := f.Duplicate()
	if err != nil {
		<-w.spare
		return false
	}
	sub.Above = base
	other := &walker{sweep: w.sweep, stack: beneath.NewStack(base, sub), lent: true}
	f.Note.lent.Go(func() {
		other.run()
		f.Note.merge(&base.Note)
		<-w.spare
	})
	return true
}

// leaveDirectory removes a directory that was read to its end, and returns to the directory above.
func (w *walker) leaveDirectory(f *frame) {
	f.Note.lent.Wait()
	if f.Above == nil {
		w.pop()
		return
	}
	if !w.GoOn() || !w.reopen() {
		return
	}
	up := w.stack.Frames[len(w.stack.Frames)-2]
	if !f.Note.stuck.Load() && f.Note.fate == deleted && !w.rmdir(up, f) {
		return
	}
	w.pop()
}

// rmdir removes a directory that was read to its end. It returns false if the directory
// needs another pass.
func (w *walker) rmdir(up, f *frame) (done bool) {
	err, ok := w.remove(up, f.Name, unix.AT_REMOVEDIR)
	switch {
	case !ok || errors.Is(err, unix.ENOENT):
	case err == nil:
		up.Note.removing.Store(true)
		w.tally.directories.Add(1)
	case errors.Is(err, unix.ENOTDIR): // the directory was renamed
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		if rewind(f) {
			return false
		}
		w.recordFailure(up, f.Name, err)
	default:
		w.recordFailure(up, f.Name, err)
	}
	return true
}

// pop returns to the directory above, which is open.
func (w *walker) pop() {
	stuck := w.stack.Top().Note.stuck.Load()
	w.stack.Pop()
	if stuck && len(w.stack.Frames) > 0 {
		w.stack.Top().Note.stuck.Store(true)
	}
}

// reopen opens the directory above if it is closed. If that fails, because a directory was
// moved, this worker stops, and another pass follows.
func (w *walker) reopen() bool {
	if err := w.stack.OpenAbove(); err == nil {
		return true
	}
	w.recordLostWay()
	if w.lent {
		w.stack.Frames[0].Note.stuck.Store(true)
	}
	w.drop()
	return false
}

// drop ends this worker's walk.
func (w *walker) drop() {
	for _, f := range w.stack.Frames {
		f.Note.lent.Wait()
	}
	w.stack.Drop()
}
