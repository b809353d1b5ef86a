package subpath

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/keylock"
	"github.com/volumekit/volumekit/util/safepath"
	"golang.org/x/sys/unix"
)

// maxTries limits the tries if a directory is removed just after it was created.
const maxTries = 64

// open opens the file at the request's path, and reports whether it is a directory. Calls
// for one volume of a pod wait for each other, so a file system that does not answer costs
// one stuck call.
func open(ctx context.Context, req Request) (file *os.File, isDir bool, err error) {
	key := "source\x00" + volumeDir(path.Clean(req.PodDir), req.Volume)
	n, _, err := keylock.Await(ctx, calls.Key(key), ctxend.Kernel, func() (node, error) { return find(ctx, req) }, closeLate)
	if err != nil {
		return nil, false, err
	}
	return os.NewFile(uintptr(n.fd), path.Join(req.VolumeDir, req.Path)), n.isDirectory(), nil
}

// closeLate closes the node that an abandoned call returns.
func closeLate(n node, err error) {
	if err == nil {
		n.close()
	}
}

func find(ctx context.Context, req Request) (node, error) {
	fd, err := safepath.Open(context.Background(), unix.AT_FDCWD, path.Clean(req.VolumeDir), unix.O_DIRECTORY)
	if err != nil {
		return node{}, err
	}
	if n, ok := findAtOnce(fd, req); ok {
		return n, unix.Close(fd)
	}
	root, err := statNode(fd)
	if err != nil {
		return node{}, err
	}
	w := &walk{req: req, mode: root.mode & (0o777 | unix.S_ISGID | unix.S_ISVTX), stack: []node{root}}
	defer w.close()
	return w.resolve(ctx, newWay(req.Path))
}

// findAtOnce opens the path by one system call. It succeeds if the path has no symbolic link
// and, unless mounts are to be included, stays in one mount. For other paths it returns
// false, and the walk resolves them.
func findAtOnce(root int, req Request) (node, bool) {
	if req.Create || !beneath.HasOpenat2() {
		return node{}, false
	}
	how := unix.OpenHow{Flags: toLook, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS}
	if req.Submounts != mount.IncludeSubmounts {
		how.Resolve |= unix.RESOLVE_NO_XDEV
	}
	fd, err := unix.Openat2(root, path.Clean(req.Path), &how)
	if err != nil {
		return node{}, false
	}
	n, err := statNode(fd)
	if err == nil && n.kind == unix.S_IFLNK {
		n.close()
	}
	return n, err == nil && n.kind != unix.S_IFLNK
}

// A walk resolves a path from the volume's directory. Its stack has the open directories
// to which ".." returns.
type walk struct {
	req   Request
	mode  uint32 // of created directories
	stack []node
}

func (w *walk) top() node { return w.stack[len(w.stack)-1] }

func (w *walk) close() {
	for _, n := range w.stack {
		n.close()
	}
}

// resolve returns the node at the end of the path. The caller closes it.
func (w *walk) resolve(ctx context.Context, rest way) (node, error) {
	for part, ok := rest.next(); ok; part, ok = rest.next() {
		if ctx.Err() != nil {
			return node{}, ctxend.Error(ctx)
		}
		if part == ".." {
			if err := w.leaveDirectory(); err != nil {
				return node{}, err
			}
			continue
		}
		n, err := w.enter(ctx, part)
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

func (w *walk) leaveDirectory() error {
	if len(w.stack) == 1 {
		return ErrEscapes
	}
	w.top().close()
	w.stack = w.stack[:len(w.stack)-1]
	return nil
}

// follow inserts the target of a symbolic link before the rest of the path, and closes the
// link.
func (w *walk) follow(link node, rest *way) error {
	defer link.close()
	text, err := link.link()
	if err != nil {
		return err
	}
	return rest.follow(text)
}

// enter opens a component of the path, and creates it if the request says so.
func (w *walk) enter(ctx context.Context, part string) (node, error) {
	if len(w.stack) > maxDepth {
		return node{}, unix.ENAMETOOLONG
	}
	n, err := openNode(w.top().fd, part)
	for try := 0; errors.Is(err, unix.ENOENT) && w.req.Create && try < maxTries; try++ {
		if n, err = w.create(ctx, part); ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return node{}, err
	}
	if w.req.Submounts != mount.IncludeSubmounts && n.mount != w.top().mount {
		n.close()
		return node{}, fmt.Errorf("%w: on %s", mount.ErrSubmounts, input.Quote(part))
	}
	if w.req.Create {
		err = w.setMode(ctx, n)
	}
	if err != nil {
		n.close()
	}
	return n, err
}

// create creates a directory that no user can enter: that mode marks it as unfinished for
// setMode, also if another call or a process that has died created it.
func (w *walk) create(ctx context.Context, part string) (node, error) {
	if ctx.Err() != nil {
		return node{}, ctxend.Error(ctx)
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

// setMode sets the mode of a directory that was just created. The name may lead to another
// directory by now; but setting the mode of an empty directory of our user that no user may
// enter exposes nothing. A directory that this call created is finished for any owner:
// a server may map root to another user. No later call would recognize that directory, so
// it is finished even after the end of ctx.
func (w *walk) setMode(ctx context.Context, n node) error {
	owned := int(n.uid) == os.Geteuid()
	if !n.isDirectory() || n.mode&0o1777 != unfinished || !owned && !n.made {
		return nil
	}
	if owned && ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	empty, err := isEmpty(n)
	if err != nil || !empty {
		return err
	}
	return chmod(n.fd, w.mode)
}

// isEmpty reports whether a directory is empty. An unreadable one counts as empty for a
// process that is not root, which owns it, and for root if this call created it on a server
// that maps root to another user.
func isEmpty(n node) (bool, error) {
	names, err := namesIn(n.fd, 1)
	if errors.Is(err, unix.EACCES) && (os.Geteuid() != 0 || n.made) {
		return true, nil
	}
	return len(names) == 0, err
}

// chmod changes the mode of an O_PATH descriptor's file. It opens nothing: the link in proc
// leads to the file itself.
func chmod(fd int, mode uint32) error {
	err := unix.Fchmodat(fd, "", mode, unix.AT_EMPTY_PATH)
	if err == nil {
		return nil
	}
	return unix.Fchmodat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), mode, 0)
}
