package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"github.com/volumekit/volumekit/internal/recordstore"
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/volume"
)

// errNotLink reports a file that is no symbolic link, and stays.
var errNotLink = errors.New("not a symbolic link")

// inHost runs work on a path below the host's root; the path cannot lead out of it.
func (p *Plugin) inHost(name string, work func(root *os.Root, name string) error) error {
	rest, ok := below(p.host.Root(), name)
	if !ok {
		return fmt.Errorf("%s is not below %s", name, p.host.Root())
	}
	return recordstore.Within(p.host.Root(), func(root *os.Root) error { return work(root, rest) })
}

// link creates a symbolic link to the path, and replaces a link with another target.
func (p *Plugin) link(to, at string) error {
	return p.inHost(at, func(root *os.Root, name string) error {
		there, err := readLink(root, name)
		if err == nil && there == to {
			return nil
		}
		if err == nil {
			err = root.Remove(name)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := root.MkdirAll(path.Dir(name), 0o750); err != nil {
			return err
		}
		return root.Symlink(to, name)
	})
}

// unlink removes a symbolic link. It is idempotent.
func (p *Plugin) unlink(at string) error {
	err := p.inHost(at, func(root *os.Root, name string) error {
		if _, err := readLink(root, name); err != nil {
			return err
		}
		return root.Remove(name)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readLinkTarget returns the target of a link. For a missing link the error wraps
// [volume.ErrNotMounted].
func (p *Plugin) readLinkTarget(at string) (to string, err error) {
	err = p.inHost(at, func(root *os.Root, name string) (err error) {
		to, err = readLink(root, name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%w: %w", volume.ErrNotMounted, err)
	}
	return to, err
}

func readLink(root *os.Root, name string) (string, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return "", err
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return "", &fs.PathError{Op: "readlink", Path: name, Err: errNotLink}
	}
	return root.Readlink(name)
}

// entries returns the names in a directory; none for a missing one.
func (p *Plugin) entries(dir string) (names []string, err error) {
	err = p.inHost(dir, func(root *os.Root, name string) error {
		f, err := root.Open(name)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		names, err = f.Readdirnames(-1)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// removeDir removes an empty directory. It is idempotent.
func (p *Plugin) removeDir(dir string) error {
	if err := safepath.Rmdir(context.Background(), dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return util.Transient(err)
	}
	return nil
}
