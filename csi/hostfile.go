package csi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/volumekit/volumekit/csi/internal/voldata"
	"github.com/volumekit/volumekit/util/safepath"
)

// hostFiles reads and writes the files of volumes below the host's root, out of which no path leads.
// The caller holds the lock of the volume's path.
type hostFiles struct{ root string }

// temporarySuffix ends the name of a file that is being written.
const temporarySuffix = ".tmp"

// newMode is the mode of new directories, before umask.
const newMode = 0o750

// errBrokenData is wrapped by the error of a file that exists and describes no volume.
var errBrokenData = errors.New("the file of the volume is broken")

var errNotRegular = errors.New("not a regular file")

// inRoot runs work on a path below the root.
func (h hostFiles) inRoot(name string, work func(root *os.Root, name string) error) error {
	rest, ok := strings.CutPrefix(name, h.root+"/")
	if !ok {
		return fmt.Errorf("%s is not below %s", name, h.root)
	}
	root, err := os.OpenRoot(h.root)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return work(root, rest)
}

// read returns the data in a file. The error wraps fs.ErrNotExist for a missing file, and
// errBrokenData for a broken one.
func (h hostFiles) read(name string) (data voldata.Data, err error) {
	err = h.inRoot(name, func(root *os.Root, rest string) error {
		text, err := readRegular(root, rest)
		if errors.Is(err, errNotRegular) {
			return fmt.Errorf("%w: %s: %w", errBrokenData, name, err)
		}
		if err != nil {
			return err
		}
		if data, err = voldata.Parse(text); err != nil {
			return fmt.Errorf("%w: %s: %w", errBrokenData, name, err)
		}
		return nil
	})
	return data, err
}

func readRegular(root *os.Root, name string) ([]byte, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errNotRegular
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, voldata.MaxSize+1))
}

// writeDurably writes a file atomically, so that the file survives a loss of power. The directory must
// exist.
func (h hostFiles) writeDurably(name string, data voldata.Data) error {
	return h.write(name, data, true)
}

// writeState writes a file atomically without waiting for the disk: the state of a call is of use in
// the running system only.
func (h hostFiles) writeState(name string, data voldata.Data) error {
	return h.write(name, data, false)
}

func (h hostFiles) write(name string, data voldata.Data, durable bool) error {
	text, err := data.Text()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return h.inRoot(name, func(root *os.Root, rest string) error {
		temporary := rest + temporarySuffix
		err := writeNew(root, temporary, text, durable)
		if err == nil {
			err = root.Rename(temporary, rest)
		}
		if err != nil {
			return errors.Join(err, ignoreMissing(root.Remove(temporary)))
		}
		if !durable {
			return nil
		}
		return syncDir(root, path.Dir(rest))
	})
}

func writeNew(root *os.Root, name string, text []byte, durable bool) error {
	if err := ignoreMissing(root.Remove(name)); err != nil {
		return err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

func syncDir(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remove removes a file, and the temporary one of an interrupted write. Missing ones are no error, and a
// directory stays.
func (h hostFiles) remove(name string) error {
	return errors.Join(h.removeOne(name), h.removeOne(name+temporarySuffix))
}

func (h hostFiles) removeOne(name string) error {
	return h.inRoot(name, func(root *os.Root, rest string) error {
		info, err := root.Lstat(rest)
		if err == nil && info.IsDir() {
			err = &fs.PathError{Op: "remove", Path: name, Err: errNotRegular}
		}
		if err == nil {
			err = root.Remove(rest)
		}
		return ignoreMissing(err)
	})
}

// mkdir creates a directory with its parents, below one of the roots, and returns the topmost directory
// that it has created.
func mkdir(root, dir string) (made string, err error) {
	return safepath.MkdirAll(context.Background(), root, dir, newMode)
}

// revertDirs removes directories that mkdir has created.
func revertDirs(made, dir string) error {
	return ignoreMissing(safepath.RemoveMade(context.Background(), made, dir))
}

// rmdirs removes empty directories; missing ones are no error.
func rmdirs(dirs ...string) error {
	for _, dir := range dirs {
		if err := ignoreMissing(safepath.Rmdir(context.Background(), dir)); err != nil {
			return err
		}
	}
	return nil
}

// rmdirsIfEmpty is rmdirs for directories that may have other entries.
func rmdirsIfEmpty(dirs ...string) {
	for _, dir := range dirs {
		_ = safepath.Rmdir(context.Background(), dir)
	}
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// bootID returns the ID of the running system, which changes with each start. It is empty on systems
// without one: then recorded calls hold beyond a restart of the machine.
func bootID() (string, error) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if os.IsNotExist(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the ID of the running system: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}
