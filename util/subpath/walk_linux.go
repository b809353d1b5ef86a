package subpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// maxTries is how often a directory may be gone that was created a moment ago.
const maxTries = 64

// open returns what is at the request's path, and whether it is a directory. It looks
// for it without the caller, who may have to leave.
func open(ctx context.Context, req Request) (file *os.File, dir bool, err error) {
	type found struct {
		node
		err error
	}
	if ctx.Err() != nil {
		return nil, false, ctxend.Error(ctx)
	}
	answer := make(chan found, 1)
	go func() {
		n, err := find(ctx, req)
		answer <- found{n, err}
	}()
	const grace = 100 * time.Millisecond
	f, ok := ctxend.Receive(ctx, answer, grace)
	if !ok {
		go func() {
			if late := <-answer; late.err == nil {
				late.close()
			}
		}()
		return nil, false, ctxend.Error(ctx)
	}
	if f.err != nil {
		return nil, false, f.err
	}
	return os.NewFile(uintptr(f.fd), path.Join(req.VolumeDir, req.Path)), f.isDirectory(), nil
}

func find(ctx context.Context, req Request) (node, error) {
	fd, err := safepath.Open(unix.AT_FDCWD, path.Clean(req.VolumeDir), unix.O_DIRECTORY)
	if err != nil {
		return node{}, err
	}
	root, err := lookAt(fd)
	if err != nil {
		return node{}, err
	}
	w := &walk{ctx: ctx, req: req, mode: root.mode & (0o777 | unix.S_ISGID), stack: []node{root}}
	defer w.close()
	return w.to(newWay(req.Path))
}

// A walk goes down from the volume's directory. The way back up, for "..", is the
// directories that it has come through.
type walk struct {
	ctx   context.Context
	req   Request
	mode  uint32 // of what it creates
	stack []node
}

func (w *walk) top() node { return w.stack[len(w.stack)-1] }

func (w *walk) close() {
	for _, n := range w.stack {
		n.close()
	}
}

// to returns a node that is the caller's to close.
func (w *walk) to(rest way) (node, error) {
	for part, ok := rest.next(); ok; part, ok = rest.next() {
		if w.ctx.Err() != nil {
			return node{}, ctxend.Error(w.ctx)
		}
		if part == ".." {
			if err := w.up(); err != nil {
				return node{}, err
			}
			continue
		}
		n, err := w.enter(part)
		if err != nil {
			return node{}, err
		}
		switch {
		case n.isDirectory():
			w.stack = append(w.stack, n)
		case n.kind == unix.S_IFLNK:
			err = w.follow(n, &rest)
		case len(rest.rest) == 0:
			return n, nil
		default:
			n.close()
			err = unix.ENOTDIR
		}
		if err != nil {
			return node{}, err
		}
	}
	n := w.top()
	w.stack = w.stack[:len(w.stack)-1]
	return n, nil
}

func (w *walk) up() error {
	if len(w.stack) == 1 {
		return ErrEscapes
	}
	w.top().close()
	w.stack = w.stack[:len(w.stack)-1]
	return nil
}

func (w *walk) follow(link node, rest *way) error {
	defer link.close()
	text, err := link.link()
	if err != nil {
		return err
	}
	return rest.follow(text)
}

// enter opens a component of the path, and makes it if it should.
func (w *walk) enter(part string) (node, error) {
	if len(w.stack) > maxDepth {
		return node{}, unix.ENAMETOOLONG
	}
	n, err := openNode(w.top().fd, part)
	for try := 0; errors.Is(err, unix.ENOENT) && w.req.Create && try < maxTries; try++ {
		if n, err = w.create(part); w.ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return node{}, err
	}
	if w.req.Submounts != mount.IncludeSubmounts && n.mount != w.top().mount {
		n.close()
		return node{}, fmt.Errorf("%w: on %s", mount.ErrSubmounts, quote(part))
	}
	if w.req.Create {
		err = w.finish(n)
	}
	if err != nil {
		n.close()
	}
	return n, err
}

// create makes a directory that nobody can enter: finish knows it by that, also if it
// is another call's, or that of a process that is dead.
func (w *walk) create(part string) (node, error) {
	if w.ctx.Err() != nil {
		return node{}, ctxend.Error(w.ctx)
	}
	made := unix.Mkdirat(w.top().fd, part, unfinished)
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return node{}, made
	}
	n, err := openNode(w.top().fd, part)
	n.made = made == nil
	return n, err
}

const unfinished = 0

// finish gives a directory that has just been created its mode. By name it may be
// another by now, one that is not for everybody: but an empty one of ours that nobody
// may enter has nothing to lose. One that this call has made is ours whoever owns it: a
// server may take root for somebody else. No later call could know that one, so it is
// finished also if the caller has left.
func (w *walk) finish(n node) error {
	owned := int(n.uid) == os.Geteuid()
	if !n.isDirectory() || n.mode&0o1777 != unfinished || !owned && !n.made {
		return nil
	}
	if owned && w.ctx.Err() != nil {
		return ctxend.Error(w.ctx)
	}
	empty, err := isEmpty(n)
	if err != nil || !empty {
		return err
	}
	return chmod(n.fd, w.mode)
}

// isEmpty takes one that we may not read for empty: who is not root has what is his
// own only, and so has root where a server takes it for somebody else.
func isEmpty(n node) (bool, error) {
	names, err := namesIn(n.fd, 1)
	if errors.Is(err, unix.EACCES) && (os.Geteuid() != 0 || n.made) {
		return true, nil
	}
	return len(names) == 0, err
}

// chmod is of an O_PATH descriptor. It opens nothing: the link in proc leads to the
// directory itself.
func chmod(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == nil {
		return nil
	}
	return unix.Fchmodat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), mode, 0)
}
