package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/volumekit/volumekit/mount"
)

// check does to a volume what a container would.
func (j *job) check(v planned, table mount.Table) error {
	info, ok := table.At(filepath.ToSlash(v.mounter.GetPath()))
	if !ok {
		return errors.New("nothing is mounted")
	}
	if isReadOnly := info.Flags&mount.ReadOnly != 0; isReadOnly != v.readOnly() {
		return fmt.Errorf("mounted %v, though read-only should be %v", info.Flags, v.readOnly())
	}
	if v.readOnly() {
		return j.checkReadOnly(v)
	}
	return j.checkWritable(v)
}

// probeName is the name of a file that nobody has.
func probeName() string { return ".podvolumes-" + rand.Text() }

// checkWritable writes a file through the volume and reads it at its source.
func (j *job) checkWritable(v planned) (err error) {
	name, text := probeName(), "volume "+v.name+" was here"
	if err := j.place.write(filepath.Join(v.mounter.GetPath(), name), text); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, j.place.remove(filepath.Join(v.mounter.GetPath(), name)))
	}()
	read, err := os.ReadFile(filepath.Join(v.source(), name))
	if err != nil {
		return err
	}
	if string(read) != text {
		return fmt.Errorf("wrote %q, and %s has %q", text, v.source(), short(string(read)))
	}
	j.printf("%s: wrote a file, and read the same in %s.\n", v.name, j.base.short(v.source()))
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
