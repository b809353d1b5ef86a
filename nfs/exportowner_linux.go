package nfs

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// own records the directory of the volume, and then the owners of the directory and of its parents,
// before they are created. A record is a symbolic link, which the server creates at once and with its
// content, or not at all; its target is never followed. Records of parents stay, like the parents.
//
// A directory that exists without a record is errOccupied, and so is a parent that a tenant chooses:
// either may be of another program. A directory with another owner, and a directory inside the
// directory of a volume, are an *ownedError. No two calls nest their directories: each records the
// parents before the directory, and a path has one record.
func (t *exportTree) own(d directory) error {
	all := d.owners()
	for _, one := range all {
		if err := t.checkFree(one); err != nil {
			return err
		}
	}
	switch other, err := t.record(volumeName(d.volume), d.begun()); {
	case err != nil:
		return err
	case other != "": // by another process
		return fmt.Errorf("%w: %q", errRecord, other)
	}
	for _, one := range all {
		if other, err := t.record(ownerName(one.rel), one.owner); err != nil {
			return err
		} else if other != "" {
			return &ownedError{one.rel, other}
		}
	}
	return nil
}

// checkFree refuses a directory with another owner, and one that exists without a record unless it
// is given or adopted.
func (t *exportTree) checkFree(d ownedDirectory) error {
	recorded, err := t.ownerOf(d.rel)
	switch {
	case err != nil:
		return err
	case recorded != "" && recorded != d.owner:
		return &ownedError{d.rel, recorded}
	case recorded != "" || d.given:
		return nil
	}
	fd, err := t.open(d.rel)
	if err == nil {
		_ = unix.Close(fd)
		if d.adopted {
			return nil
		}
		return &fs.PathError{Op: "mkdir", Path: d.rel, Err: errOccupied}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// begun returns the directory that an earlier call recorded for a volume, or nil.
func (t *exportTree) begun(pvName string) (*directory, error) {
	record, err := t.recorded(volumeName(pvName))
	if err != nil || record == "" {
		return nil, err
	}
	return parseBegun(pvName, record)
}

// forget removes the record of a volume.
func (t *exportTree) forget(pvName string) error { return t.removeRecord(volumeName(pvName)) }

// ownerOf returns the recorded owner of a directory, or "".
func (t *exportTree) ownerOf(rel string) (string, error) { return t.recorded(ownerName(rel)) }

// checkOwner returns an *ownedError for a directory with another owner.
func (t *exportTree) checkOwner(rel, owner string) error {
	recorded, err := t.ownerOf(rel)
	if err == nil && recorded != "" && recorded != owner {
		return &ownedError{rel, recorded}
	}
	return err
}

// disown removes the record of an owner, if it exists.
func (t *exportTree) disown(rel, owner string) error {
	recorded, err := t.ownerOf(rel)
	if err != nil || recorded == "" || recorded != owner {
		return err
	}
	return t.removeRecord(ownerName(rel))
}

// exportName is the name of the record with the name of the export.
const exportName = "export"

// name returns the name of the export, which is a random number. If it is missing, a new volume writes one. For a volume
// that an earlier call began the result is "": its name could have been another one, which is lost.
func (t *exportTree) name(isNew bool) (string, error) {
	name, err := t.recorded(exportName)
	if err != nil || name != "" || !isNew {
		return name, err
	}
	name = rand.Text()
	other, err := t.record(exportName, name)
	return cmp.Or(other, name), err
}

// record writes a record, and returns the content of the record that exists if that is another.
func (t *exportTree) record(name, content string) (other string, err error) {
	err = unix.Mkdirat(t.fd, ownersDir, 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return "", &fs.PathError{Op: "mkdir", Path: ownersDir, Err: err}
	}
	owners, err := t.open(ownersDir)
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(owners) }()
	written := unix.Symlinkat(content, owners, name)
	if errors.Is(written, unix.EEXIST) { // by an earlier or a concurrent call, or by this one before the server's answer was lost
		switch other, err = t.recorded(name); {
		case err != nil:
			return "", err
		case other == content:
			return "", nil
		case other != "":
			return other, nil
		}
	}
	if written != nil {
		return "", &fs.PathError{Op: "symlink", Path: ownersDir, Err: written}
	}
	return "", nil
}

// recorded returns the content of a record, or "".
func (t *exportTree) recorded(name string) (string, error) {
	owners, err := t.open(ownersDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(owners) }()
	content := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(owners, name, content)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: ownersDir, Err: err}
	}
	return string(content[:n]), nil
}

// removeRecord removes a record, if it exists.
func (t *exportTree) removeRecord(name string) error {
	owners, err := t.open(ownersDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(owners) }()
	if err := unix.Unlinkat(owners, name, 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "unlink", Path: ownersDir, Err: err}
	}
	return nil
}
