package hostpath

import (
	"errors"
	"os"
	"path"
	"strings"

	"github.com/volumekit/volumekit/util/podvolume"
	"golang.org/x/sys/unix"
)

// A walk opens the components of a path one after the other, each relative to the descriptor
// of the directory above it. A symbolic link is opened and then read by descriptor, so the
// checks of a link and of its directory concern the very ones that are followed.
type walk struct {
	links    *podvolume.HostRoots
	steps    []step   // directories from "/" on
	rest     []string // components still to be opened
	followed int
	last     *LinkError
}

// A step is an open component.
type step struct {
	name string
	file *os.File
	stat unix.Statx_t
	safe bool // only root can write to it and to all above it
}

// walk opens a path with symbolic links on the way.
func (p *Plugin) walk(name string) (found, error) {
	w := &walk{links: p.links, rest: strings.Split(name, "/")}
	defer w.close()
	if err := w.run(); err != nil {
		return found{path: w.path(), last: w.last}, err
	}
	end := &w.steps[len(w.steps)-1]
	there := foundAt(w.path(), end.file, end.stat)
	there.last = w.last
	end.file = nil // the caller's
	return there, nil
}

func (w *walk) close() { w.closeTo(0) }

// closeTo closes all but the first steps.
func (w *walk) closeTo(to int) {
	for _, s := range w.steps[to:] {
		if s.file != nil {
			_ = s.file.Close()
		}
	}
	w.steps = w.steps[:to]
}

// path returns the path of the last step, with the missing components.
func (w *walk) path() string {
	var b strings.Builder
	for _, s := range w.steps[min(1, len(w.steps)):] {
		b.WriteString("/" + s.name)
	}
	for _, name := range w.rest {
		b.WriteString("/" + name)
	}
	return b.String()
}

// run opens the components in rest until none is left. It fails at the first one that is missing or
// must not be followed.
func (w *walk) run() error {
	if err := w.openRoot(); err != nil {
		return err
	}
	for len(w.rest) > 0 {
		name := w.rest[0]
		w.rest = w.rest[1:]
		switch name {
		case "", ".":
		case "..":
			w.closeTo(max(1, len(w.steps)-1))
		default:
			if err := w.enter(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *walk) openRoot() error {
	root, stat, err := openStep(unix.AT_FDCWD, "/")
	if err == nil {
		w.steps = append(w.steps, step{file: root, stat: stat, safe: isRoots(stat)})
	}
	return err
}

// enter opens the next component. A missing one stays in rest.
func (w *walk) enter(name string) error {
	in := w.steps[len(w.steps)-1]
	file, stat, err := openStep(int(in.file.Fd()), name)
	if err != nil {
		w.rest = append([]string{name}, w.rest...)
		return &os.PathError{Op: "open", Path: w.path(), Err: err}
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFLNK {
		defer func() { _ = file.Close() }()
		return w.follow(name, file, in.safe && stat.Uid == 0)
	}
	w.steps = append(w.steps, step{name, file, stat, in.safe && isRoots(stat)})
	return nil
}

// follow continues at the target of an open symbolic link, if it may be followed.
func (w *walk) follow(name string, file *os.File, safe bool) error {
	to, err := readLink(file)
	if err != nil {
		return &os.PathError{Op: "readlink", Path: w.path() + "/" + name, Err: err}
	}
	rest := w.rest
	w.rest = nil
	dir := w.path()
	link := &LinkError{Link: dir + "/" + name, To: to}
	switch {
	case !w.links.IsBelow(path.Join("/", dir)):
		link.Reason = notInLinks
	case !safe:
		link.Reason = notRoots
	case w.followed == mostFollowed:
		link.Reason = tooMany
	}
	if link.Reason != "" {
		return link
	}
	if strings.HasPrefix(to, "/") {
		w.closeTo(1)
	}
	link.Reason = leadsOut
	w.last, w.rest, w.followed = link, append(strings.Split(to, "/"), rest...), w.followed+1
	return nil
}

// openStep opens an entry without following a symbolic link, and returns its attributes.
func openStep(dir int, name string) (*os.File, unix.Statx_t, error) {
	var stat unix.Statx_t
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	for errors.Is(err, unix.EINTR) {
		fd, err = unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return nil, stat, err
	}
	const quiet = unix.AT_EMPTY_PATH | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(fd, "", quiet, unix.STATX_TYPE|unix.STATX_MODE|unix.STATX_UID|unix.STATX_INO, &stat); err != nil {
		_ = unix.Close(fd)
		return nil, stat, err
	}
	return os.NewFile(uintptr(fd), name), stat, nil
}

// isRoots reports whether root owns a file and is the only writer. An access control list
// that lets others write shows in the group's bits.
func isRoots(stat unix.Statx_t) bool { return stat.Uid == 0 && stat.Mode&0o022 == 0 }

// readLink reads an open symbolic link.
func readLink(file *os.File) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(file.Fd()), "", buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}
