package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

// check does to a volume what a container would.
func (j *job) check(v planned, table mount.Table) error {
	source, ok := sourceOf(v.spec)
	if !ok && v.mounter.GetAttributes().ReadOnly {
		return j.checkFiles(v)
	}
	info, mounted := table.At(filepath.ToSlash(v.mounter.GetPath()))
	switch {
	case !ok && mounted && j.place.dry:
		j.printf("%s: a %s of an in-memory kernel has no files.\n", v.name, info.FSType)
		return nil
	case !ok:
		return j.checkWritable(v, v.mounter.GetPath())
	case !mounted:
		return errors.New("nothing is mounted")
	}
	if isReadOnly := info.Flags&mount.ReadOnly != 0; isReadOnly != v.readOnly() {
		return fmt.Errorf("mounted %v, though read-only should be %v", info.Flags, v.readOnly())
	}
	if v.readOnly() {
		return j.checkReadOnly(v)
	}
	if is, err := os.Stat(source); err != nil || !is.IsDir() {
		return err // a file, a socket, a device: not ours to write to
	}
	return j.checkWritable(v, source)
}

// checkFiles lists what was written for the pod, as it sees it.
func (j *job) checkFiles(v planned) error {
	var names []string
	var total int64
	root := v.mounter.GetPath()
	err := filepath.WalkDir(filepath.Join(root, "..data")+"/", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			name, _ := filepath.Rel(filepath.Join(root, "..data"), path)
			names, total = append(names, plain(name)), total+info.Size()
		}
		return err
	})
	if err == nil {
		j.printf("%s: holds %s, %d bytes.\n", v.name, cmp.Or(strings.Join(names, ", "), "nothing"), total)
	}
	return err
}

// probeName is the name of a file that nobody has.
func probeName() string { return ".podvolumes-" + rand.Text() }

// checkWritable writes a file through the volume and reads it at its source.
func (j *job) checkWritable(v planned, source string) (err error) {
	name, text := probeName(), "volume "+v.name+" was here"
	if err := j.place.write(filepath.Join(v.mounter.GetPath(), name), text); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, j.place.remove(filepath.Join(v.mounter.GetPath(), name)))
	}()
	read, err := os.ReadFile(filepath.Join(source, name))
	if err != nil {
		return err
	}
	if string(read) != text {
		return fmt.Errorf("wrote %q, and %s has %q", text, source, short(string(read)))
	}
	if source == v.mounter.GetPath() {
		j.printf("%s: wrote a file, and read it again.\n", v.name)
		return nil
	}
	j.printf("%s: wrote a file, and read the same in %s.\n", v.name, j.base.short(source))
	return nil
}

// checkReadOnly expects to be refused.
func (j *job) checkReadOnly(v planned) error {
	probe := filepath.Join(v.mounter.GetPath(), probeName())
	err := j.place.write(probe, "")
	switch {
	case errors.Is(err, syscall.EROFS):
		j.printf("%s: a write is refused: %v.\n", v.name, syscall.EROFS)
		return nil
	case err == nil:
		return errors.Join(errors.New("read-only, and could be written to"), j.place.remove(probe))
	}
	return fmt.Errorf("a write fails, but not for being read-only: %w", err)
}

// write makes a new file.
func (p place) write(path, text string) error {
	real, readOnly, err := p.resolve(path)
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

func (p place) remove(path string) error {
	real, _, err := p.resolve(path)
	if err != nil {
		return err
	}
	return os.Remove(real)
}
