package safepath

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
)

// CreateFile creates an empty file at name, which is strictly below root and whose
// parents exist, with permissions perm (before umask), and reports whether it did. An
// existing entry is left as it is and is no error, unless it is a directory (EISDIR) or a
// symbolic link (ELOOP). CreateFile follows no symbolic link. If ctx ends first, it
// removes the file that it created.
func CreateFile(ctx context.Context, root, name string, perm fs.FileMode) (created bool, err error) {
	defer brief.Shorten(&err)
	if _, err := split("create", root, name); err != nil {
		return false, err
	}
	name = path.Clean(name)
	return inTime(ctx, "create", name, func() (bool, error) {
		created, err := createFile(name, perm)
		if created && ctx.Err() != nil {
			return false, errors.Join(ctxend.Error(ctx), removeEmptyFile(name))
		}
		return created, err
	})
}

// ErrNotEmpty is wrapped by the error of [RemoveEmptyFile] for entries that it leaves.
var ErrNotEmpty = errors.New("not an empty regular file")

// RemoveEmptyFile removes the file at name, an absolute path, if it is an empty regular file
// without other names, such as a mount point for a file. It leaves all other entries, with
// an error that wraps [ErrNotEmpty], or EBUSY if a file is mounted there. It follows no
// symbolic link, in the last component or before. For a missing file the error wraps
// fs.ErrNotExist.
func RemoveEmptyFile(ctx context.Context, name string) (err error) {
	defer brief.Shorten(&err)
	if _, err := split("remove", "/", name); err != nil {
		return err
	}
	name = path.Clean(name)
	return inTimeOf(ctx, "remove", name, func() error { return removeEmptyFile(name) })
}
