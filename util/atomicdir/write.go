package atomicdir

import (
	"context"
	"path"

	"github.com/volumekit/volumekit/util/internal/beneath"
)

// Write makes files, by their names relative to dir, the set that is in the directory
// dir, which must exist; the path is absolute and has no symbolic link anywhere on the
// way. Names may have directories in them. It reports whether the set had to change,
// also along with an error.
//
// It is idempotent: a set that has the same names, bytes, permissions and owners is
// left as it is. There must be one Write at a time for a directory.
//
// An error is
//
//   - an *InputError if a name, mode, owner or dir is refused,
//   - a *LeftoverError if the set is as asked and something else could not be removed,
//   - one that wraps the cause of ctx, if it ended before the new set was in place,
//   - an *fs.PathError otherwise. The set is the old one, or, if changed is true, the
//     new one, some of whose names may not be visible yet: call it again.
//
// No error holds a byte of a file. A ctx that ends later only ends the removal of what
// is left.
func Write(ctx context.Context, dir string, files map[string]File, o Options) (changed bool, err error) {
	if reason := beneath.BadRoot(dir); reason != "" {
		return false, &InputError{Field: "dir", Value: dir, Reason: reason}
	}
	if err := o.check(files); err != nil {
		return false, err
	}
	l, err := arrange(files)
	if err != nil {
		return false, err
	}
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	return write(ctx, path.Clean(dir), l, o)
}
