package safepath

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/util/ctxend"
)

// MkdirAll creates the directory at name and its missing parents, all strictly below root,
// with permissions perm (before umask). The root must exist. MkdirAll returns the topmost
// directory that it created, or "" if all existed already, also along with an error: the
// argument for [RemoveMade]. A component that is a symbolic link or a file is an error, as
// is a name that is not strictly below root.
//
// Parents that another process removes meanwhile are created again. If ctx ends first,
// MkdirAll removes the directories that it created, as RemoveMade does.
func MkdirAll(ctx context.Context, root, name string, perm fs.FileMode) (made string, err error) {
	defer brief.Shorten(&err)
	parts, err := split("mkdir", root, name)
	if err != nil {
		return "", err
	}
	return inTime(ctx, "mkdir", name, func() (string, error) {
		made, err := tryMkdirAll(path.Clean(root), name, parts, perm)
		if ctx.Err() != nil {
			return "", errors.Join(ctxend.Error(ctx), err, removeMade(context.Background(), made, path.Clean(name)))
		}
		return made, err
	})
}

func tryMkdirAll(root, name string, parts []string, perm fs.FileMode) (made string, err error) {
	kept := len(parts)
	const tries = 256
	for range tries {
		var found int
		found, err = mkdirAll(root, parts, perm)
		kept = min(kept, found)
		if !errors.Is(err, errRemoved) {
			break
		}
	}
	if kept < len(parts) {
		made = path.Join(root, path.Join(parts[:kept+1]...))
	}
	if err != nil {
		return made, &fs.PathError{Op: "mkdir", Path: name, Err: err}
	}
	return made, nil
}

// RemoveMade reverts MkdirAll: it removes the empty directory at name, and its empty parents
// up to made. It does nothing if made is "", or neither name nor a parent of it. If name
// itself cannot be removed, RemoveMade returns the error, unless name is missing. If a
// parent cannot be removed, RemoveMade ends and returns nil: another process may have
// created a directory in it.
func RemoveMade(ctx context.Context, made, name string) (err error) {
	defer brief.Shorten(&err)
	return inTimeOf(ctx, "rmdir", name, func() error { return removeMade(ctx, made, path.Clean(name)) })
}

func removeMade(ctx context.Context, made, name string) error {
	for at := name; made != "" && isOrIsBelow(at, made); at = path.Dir(at) {
		if ctx.Err() != nil {
			return ctxend.Error(ctx)
		}
		err := checkedRmdir(at)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if at != name {
			return nil
		}
		return err
	}
	return nil
}

func isOrIsBelow(name, dir string) bool {
	return name == dir || strings.HasPrefix(name, strings.TrimSuffix(dir, "/")+"/")
}

// Rmdir removes the empty directory at name, which must be absolute and not the root. It
// never removes a file, a directory that is not empty (ENOTEMPTY), or a mount point
// (EBUSY), and it does not follow a symbolic link, in the last component or before. For a
// missing directory the error wraps fs.ErrNotExist.
func Rmdir(ctx context.Context, name string) (err error) {
	defer brief.Shorten(&err)
	return inTimeOf(ctx, "rmdir", name, func() error { return checkedRmdir(name) })
}

func checkedRmdir(name string) error {
	if _, err := split("rmdir", "/", name); err != nil {
		return err
	}
	if err := rmdir(path.Clean(name)); err != nil {
		return &fs.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

var (
	// errRemoved: another process removed a parent during the call.
	errRemoved = errors.New("a parent directory was removed meanwhile")

	errNotBelow = errors.New("the path is not strictly below its root")
	errRelative = errors.New("the path is not absolute")
)

// split returns the components of name below root.
func split(op, root, name string) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, &fs.PathError{Op: op, Path: name, Err: err}
	}
	if !path.IsAbs(root) || !path.IsAbs(name) {
		return fail(errRelative)
	}
	if strings.ContainsRune(name, 0) || hasDotDot(name) || hasDotDot(root) {
		return fail(fs.ErrInvalid)
	}
	prefix := strings.TrimSuffix(path.Clean(root), "/") + "/"
	rest, ok := strings.CutPrefix(path.Clean(name), prefix)
	if !ok || rest == "" {
		return fail(errNotBelow)
	}
	return strings.Split(rest, "/"), nil
}

func hasDotDot(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if part == ".." {
			return true
		}
	}
	return false
}
