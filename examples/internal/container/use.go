package container

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/internal/cli"
	"github.com/volumekit/volumekit/mount"
)

// Use reads from the volume, writes to it if its files are the pod's, and prints a line. It
// returns an error if the volume is not as its specification says.
func (c Container) Use(v Volume) error {
	if v.Device {
		return c.useDevice(v)
	}
	if hasContent(v.Spec) {
		return c.listFiles(v)
	}
	source, ok := Source(v.Spec)
	info, mounted := c.Table.At(filepath.ToSlash(v.Path))
	switch {
	case !ok && mounted && c.InMemory:
		c.Printf("%s: a %s of an in-memory kernel has no files.\n", v.Name, info.FSType)
		return nil
	case info.FSType == "hugetlbfs":
		c.Printf("%s: huge pages, which are for mmap(2): no write is tried.\n", v.Name)
		return nil
	case Export(v.Spec) != nil && mounted:
		return c.useNFS(v, info)
	case !ok:
		return c.write(v, v.Path)
	case !mounted:
		return errors.New("the volume is not mounted")
	}
	if isReadOnly := info.Flags&mount.ReadOnly != 0; isReadOnly != v.ReadOnly {
		return fmt.Errorf("the mount is %v, expected read-only: %v", info.Flags, v.ReadOnly)
	}
	if v.ReadOnly {
		return c.writeReadOnly(v)
	}
	if is, err := os.Stat(source); err != nil || !is.IsDir() {
		return c.describeFile(v, err) // a file, a socket, a device: not the pod's to write to
	}
	return c.write(v, source)
}

// useDevice reads the size, and writes nothing.
func (c Container) useDevice(v Volume) error {
	f, err := os.Open(v.Path)
	if err != nil {
		return err
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	c.Printf("%s: a block device of %d bytes.\n", v.Name, size)
	return nil
}

// useNFS writes a file if the server lets this user do so.
func (c Container) useNFS(v Volume, info mount.Info) error {
	if v.ReadOnly {
		if info.Flags&mount.ReadOnly == 0 {
			return errors.New("the mount is rw, expected read-only")
		}
		return c.writeReadOnly(v)
	}
	err := c.write(v, v.Path)
	if errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.EPERM) {
		c.Printf("%s: mounted; the server does not let this user write.\n", v.Name)
		return nil
	}
	return err
}

// describeFile prints the type of a volume that is not a directory.
func (c Container) describeFile(v Volume, err error) error {
	if err != nil {
		return err
	}
	real, _, err := c.Resolve(v.Path)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	what := "a file"
	switch mode := info.Mode(); {
	case mode&fs.ModeCharDevice != 0:
		what = "a character device"
	case mode&fs.ModeDevice != 0:
		what = "a block device"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	}
	c.Printf("%s: %s.\n", v.Name, what)
	return nil
}

// listFiles prints the names and the size of the files that the plugin wrote for the pod.
func (c Container) listFiles(v Volume) error {
	var names []string
	var total int64
	root := filepath.Join(v.Path, "..data")
	err := filepath.WalkDir(root+"/", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			name, _ := filepath.Rel(root, path)
			names, total = append(names, cli.Plain(name)), total+info.Size()
		}
		return err
	})
	if err == nil {
		c.Printf("%s: holds %s, %d bytes.\n", v.Name, cmp.Or(strings.Join(names, ", "), "nothing"), total)
	}
	return err
}

// newName is the name of a file that does not exist.
func newName() string { return ".podvolumes-" + rand.Text() }

// write writes a file through the volume and reads it at its source.
func (c Container) write(v Volume, source string) (err error) {
	name, text := newName(), "volume "+v.Name+" was here"
	if err := c.create(filepath.Join(v.Path, name), text); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.remove(filepath.Join(v.Path, name))) }()
	read, err := os.ReadFile(filepath.Join(source, name))
	if err != nil {
		return err
	}
	if string(read) != text {
		return fmt.Errorf("read %s: got %.64q, wrote %q", source, read, text)
	}
	if source == v.Path {
		c.Printf("%s: wrote a file, and read it again.\n", v.Name)
		return nil
	}
	c.Printf("%s: wrote a file, and read the same in %s.\n", v.Name, c.relative(source))
	return nil
}

// writeReadOnly returns an error if a write is not refused.
func (c Container) writeReadOnly(v Volume) error {
	name := filepath.Join(v.Path, newName())
	err := c.create(name, "")
	switch {
	case errors.Is(err, syscall.EROFS):
		c.Printf("%s: a write is refused: %v.\n", v.Name, syscall.EROFS)
		return nil
	case err == nil:
		return errors.Join(errors.New("write to a read-only volume: no error"), c.remove(name))
	}
	return fmt.Errorf("write to a read-only volume: expected EROFS: %w", err)
}

func (c Container) create(path, text string) error {
	real, readOnly, err := c.Resolve(path)
	if err == nil && readOnly {
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.EROFS}
	}
	if err != nil {
		return err
	}
	f, err := os.OpenFile(real, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, os.Remove(real))
	}
	return err
}

func (c Container) remove(path string) error {
	real, _, err := c.Resolve(path)
	if err != nil {
		return err
	}
	return os.Remove(real)
}
