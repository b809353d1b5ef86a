package scrub

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
	// back before it is left to the next pass.
	maxSwaps = 8
)

// A walker is one worker's way through a tree, depth first, without recursion.
//
//	stack[0]            where it began: always open
//	stack[1:low]        closed, to be opened again through ".."
//	stack[low:]         open
type walker struct {
	*sweep
	stack []*frame
	low   int
	lent  bool // stack[0] is another worker's, and only its descriptor ours
}

func (w *walker) top() *frame { return w.stack[len(w.stack)-1] }

// run ends with nothing open.
func (w *walker) run() {
	for len(w.stack) > 0 && w.goOn() {
		f := w.top()
		if w.lent && len(w.stack) == 1 {
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
	for _, f := range w.stack {
		f.lent.Wait()
		f.close()
	}
}

// read returns the directory's next entry.
func (w *walker) read(f *frame) (entry, bool, error) {
	for {
		if e, ok := f.unread.take(); ok {
			f.next = e.next
			return e, true, nil
		}
		if !w.goOn() {
			return entry{}, false, nil
		}
		more, err := f.unread.refill(f.fd)
		if err != nil || !more {
			return entry{}, false, err
		}
	}
}

// giveUp leaves a directory that cannot be read.
func (w *walker) giveUp(f *frame, err error) {
	if f.above == nil {
		w.stop(err)
		return
	}
	w.note(f.above, f.name, err)
	f.stuck.Store(true)
	w.leave(f)
}

// entry sees to one entry: it is gone afterwards, or noted, or on top of the stack.
func (w *walker) entry(f *frame, e entry) {
	will := goes
	if f.above == nil {
		will = w.fate(e.name)
	}
	if will == stays {
		return
	}
	if badName(e.name) != "" {
		w.note(f, e.name, unix.EINVAL)
		return
	}
	kind := e.kind
	for range maxSwaps {
		if !w.goOn() {
			return
		}
		if kind == unix.DT_UNKNOWN {
			kind, _ = kindOf(f.fd, e.name, 0)
		}
		again := false
		if kind == unix.DT_DIR {
			again = w.directory(f, e.name, will)
			kind = unix.DT_REG
		} else {
			again = w.file(f, e.name)
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
		f.removing.Store(true)
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
	if !w.weigh || unix.Statx(f.fd, name, quiet, unix.STATX_TYPE|unix.STATX_NLINK|unix.STATX_SIZE, &x) != nil {
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
	for i := len(w.stack) - 1; i > 0; i-- {
		if w.stack[i].name == ".snapshot" {
			w.note(w.stack[i].above, ".snapshot", err)
			w.unwind(i)
			return
		}
	}
}

// unwind leaves the i-th directory and all below, as far as the way back is known.
func (w *walker) unwind(i int) {
	for len(w.stack) > i {
		f := w.top()
		f.stuck.Store(true)
		f.lent.Wait()
		if !w.reopen(f) {
			return
		}
		w.pop()
	}
}

// directory begins with a directory, or gives it to another worker, and reports
// whether it is none by now.
func (w *walker) directory(f *frame, name string, will fate) (isNone bool) {
	if len(w.stack) > maxDepth {
		w.note(f, name, unix.ENAMETOOLONG)
		return false
	}
	fd, at, err := openIn(f.fd, name, w.root.id)
	switch {
	case err == nil:
		sub := &frame{place: at, above: f, name: name, fate: will, fd: fd}
		if !w.lend(f, sub) {
			w.push(sub)
		}
	case errors.Is(err, unix.ENOENT):
	case errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP):
		return true
	case errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM):
		w.stop(err)
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
		if !isRoots(f.fd, name) {
			w.note(f, name, cause)
		}
		return
	}
	err, ok := w.remove(f, name, unix.AT_REMOVEDIR)
	switch {
	case !ok:
	case err == nil:
		f.removing.Store(true)
		w.tally.directories.Add(1)
	case !errors.Is(err, unix.ENOENT):
		w.note(f, name, cause)
	}
}

// isRoots reports whether a directory is that of a superuser who lets nobody in.
func isRoots(dir int, name string) bool {
	var x unix.Statx_t
	err := unix.Statx(dir, name, quiet, unix.STATX_TYPE|unix.STATX_UID, &x)
	return err == nil && x.Uid == 0 && x.Mode&unix.S_IFMT == unix.S_IFDIR
}

// lend starts a worker for a directory, if there may be another one and there is
// something else to do here.
func (w *walker) lend(f, sub *frame) bool {
	if !f.unread.hasDirectory() {
		return false
	}
	select {
	case w.spare <- struct{}{}:
	default:
		return false
	}
	fd, err := unix.FcntlInt(uintptr(f.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		<-w.spare
		return false
	}
	base := &frame{place: f.place, above: f.above, name: f.name, fd: fd}
	sub.above = base
	other := &walker{sweep: w.sweep, stack: []*frame{base, sub}, low: 1, lent: true}
	f.lent.Go(func() {
		other.run()
		f.learn(base)
		<-w.spare
	})
	return true
}

// leave goes back up from a directory whose end has been reached, and removes it.
func (w *walker) leave(f *frame) {
	f.lent.Wait()
	if f.above == nil {
		w.pop()
		return
	}
	if !w.goOn() || !w.reopen(f) {
		return
	}
	up := w.stack[len(w.stack)-2]
	if !f.stuck.Load() && f.fate == goes && !w.rmdir(up, f) {
		return
	}
	w.pop()
}

// rmdir removes a directory that was read to its end, and reports whether it is done
// with it: another pass may be needed.
func (w *walker) rmdir(up, f *frame) (done bool) {
	err, ok := w.remove(up, f.name, unix.AT_REMOVEDIR)
	switch {
	case !ok || errors.Is(err, unix.ENOENT):
	case err == nil:
		up.removing.Store(true)
		w.tally.directories.Add(1)
	case errors.Is(err, unix.ENOTDIR): // it has another name by now
	case errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST):
		if f.rewind() {
			return false
		}
		w.note(up, f.name, err)
	default:
		w.note(up, f.name, err)
	}
	return true
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

// pop goes back up into a directory that is open.
func (w *walker) pop() {
	f := w.top()
	w.stack = w.stack[:len(w.stack)-1]
	if f.stuck.Load() && len(w.stack) > 0 {
		w.top().stuck.Store(true)
	}
	f.close()
}

// reopen sees to it that the directory above is open. If ".." is another directory by
// now this worker stops, and there will be another pass.
func (w *walker) reopen(f *frame) bool {
	i := len(w.stack) - 2
	up := w.stack[i]
	if up.fd >= 0 {
		return true
	}
	fd, err := again(func() (int, error) { return unix.Openat(f.fd, "..", toList, 0) })
	if err == nil {
		err = w.isStill(fd, up)
	}
	if err != nil {
		w.noteLost()
		w.drop()
		return false
	}
	up.fd, w.low = fd, i
	return true
}

var errMoved = errors.New("moved meanwhile")

// isStill closes what is not the directory that was left, or cannot be read on.
func (w *walker) isStill(fd int, f *frame) error {
	at, err := confirm(fd, w.root.id)
	if err != nil {
		return err
	}
	if at != f.place {
		err = errMoved
	} else {
		_, err = unix.Seek(fd, f.next, unix.SEEK_SET)
	}
	if err != nil {
		_ = unix.Close(fd)
	}
	return err
}

// drop ends the walk where it is.
func (w *walker) drop() {
	for _, f := range w.stack {
		f.lent.Wait()
		f.close()
	}
	if w.lent {
		w.stack[0].stuck.Store(true)
	}
	w.stack = nil
}
