package atomicdir

import (
	"context"
	"io/fs"
	"path"
	"sync"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/internal/beneath"
	"github.com/volumekit/volumekit/util/keylock"
)

// Write makes files, by their names relative to dir, the set in the directory dir. The
// directory must exist; its path is absolute and has no symbolic link. Names may contain
// directories. Write reports whether the set had to change, also along with an error.
//
// It is idempotent: a set that has the same names, bytes, permissions and owners stays as
// it is. There must be one Write at a time for a directory.
//
// An error is
//
//   - an *InputError if a name, mode, owner, mount point or dir is refused,
//   - a *LeftoverError if the set is in place and other entries could not be removed,
//   - an error that wraps the cause of ctx, if ctx ended before the new set was in place,
//   - an *fs.PathError otherwise. The set is the old one, or, if changed is true, the
//     new one, some of whose names may not be visible yet: call Write again.
//
// No error contains a byte of a file. If ctx ends later, only the removal of leftovers
// ends.
//
// Write returns soon after ctx ends. If the file system of the directory does not answer,
// a system call may continue, and changed says whether the new set may come into place; the
// next Write for the directory waits for the end of that call.
func Write(ctx context.Context, dir string, files map[string]File, o Options) (changed bool, err error) {
	defer brief.Shorten(&err)
	if reason := beneath.BadRoot(dir); reason != "" {
		return false, operation.Refuse("dir", dir, reason)
	}
	if err := o.check(files); err != nil {
		return false, err
	}
	l, err := arrange(files, o.MountPoints)
	if err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return writeInTime(ctx, path.Clean(dir), l, o)
}

// writes locks directories during a Write, also after its caller has returned.
var writes keylock.Map

func writeInTime(ctx context.Context, dir string, l layout, o Options) (changed bool, err error) {
	type ended struct {
		changed bool
		err     error
	}
	var c commit
	e, _, err := keylock.Await(ctx, writes.Key(dir), ctxend.Kernel, func() (ended, error) {
		changed, err := write(ctx, dir, l, o, &c)
		return ended{changed, err}, nil
	}, nil)
	if err == nil {
		return e.changed, e.err
	}
	return c.abandon(), &fs.PathError{Op: "write", Path: input.Shorten(dir), Err: err}
}

// A commit decides between the step of a Write that puts the new set in place, and the
// return of its caller: the first of the two prevents the other.
type commit struct {
	mu               sync.Mutex
	begun, abandoned bool
}

// begin begins the step, unless the caller has returned, and reports whether it did.
func (c *commit) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = c.begun || !c.abandoned
	return !c.abandoned
}

// abandon prevents the step unless it has begun, and reports whether it has.
func (c *commit) abandon() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abandoned = true
	return c.begun
}
