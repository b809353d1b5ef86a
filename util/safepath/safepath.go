package safepath

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// MkdirAll creates the directory at name and its missing parents, which all are
// strictly below root, with permissions perm (before umask). The root must
// exist. It returns the topmost directory that it created, or "" if all were
// there already, also along with an error: what [RemoveMade] takes back. A
// component that is a symbolic link or a file is an error, as is a name that is
// not strictly below root.
//
// Parents that somebody removes while it works are created again.
func MkdirAll(root, name string, perm fs.FileMode) (made string, err error) {
	parts, err := split("mkdir", root, name)
	if err != nil {
		return "", err
	}
	root = path.Clean(root)
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

// RemoveMade takes back what MkdirAll made on the way to name: it removes the
// directory at name and its parents, the last of which is made, as far as they
// are empty. It does nothing if made is "" or not name or a parent of it. That
// name itself stays is an error, unless it is missing. The first parent that
// stays ends it, which is none: somebody else's directory may be in it by now.
func RemoveMade(made, name string) error {
	name = path.Clean(name)
	for at := name; made != "" && isOrIsBelow(at, made); at = path.Dir(at) {
		err := Rmdir(at)
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

// Rmdir removes the empty directory at name, which must be absolute and not the
// root. It never removes a file, a directory with something in it (ENOTEMPTY),
// or one on which something is mounted (EBUSY), and it does not follow a
// symbolic link, in the last component or before. A missing directory is an
// error that wraps fs.ErrNotExist.
func Rmdir(name string) error {
	if _, err := split("rmdir", "/", name); err != nil {
		return err
	}
	if err := rmdir(path.Clean(name)); err != nil {
		return &fs.PathError{Op: "rmdir", Path: name, Err: err}
	}
	return nil
}

var (
	// errRemoved: a parent that was there a moment ago is gone.
	errRemoved = errors.New("a parent directory was removed meanwhile")

	errNotBelow = errors.New("the path is not strictly below its root")
	errRelative = errors.New("the path is not absolute")
)

// split returns the components of name that come after root.
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
