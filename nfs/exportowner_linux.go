package nfs

import (
	"errors"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// own records the volume as the owner of its directory, before the directory is created. The record
// is a symbolic link, which the server creates at once and with its content, or not at all; its
// target is the name of the volume, and is never followed.
//
// A directory that exists without a record is errOccupied. A directory of another volume, or inside
// one, is an *ownedError.
func (t *exportTree) own(d directory) error {
	if d.owner == "" && !d.shared {
		return nil
	}
	for above := path.Dir(d.rel); above != "."; above = path.Dir(above) {
		if err := t.checkOwner(above, ""); err != nil {
			return err
		}
	}
	owner, err := t.ownerOf(d.rel)
	switch {
	case err != nil:
		return err
	case owner != "" && owner != d.owner:
		return &ownedError{d.rel, owner}
	case d.shared || owner == d.owner:
		return nil
	}
	fd, err := t.open(d.rel)
	if err == nil {
		_ = unix.Close(fd)
		return &fs.PathError{Op: "mkdir", Path: d.rel, Err: errOccupied}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.record(d)
}

func (t *exportTree) record(d directory) error {
	err := unix.Mkdirat(t.fd, ownersDir, 0o700)
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return &fs.PathError{Op: "mkdir", Path: ownersDir, Err: err}
	}
	owners, err := t.open(ownersDir)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(owners) }()
	err = unix.Symlinkat(d.owner, owners, ownerName(d.rel))
	if errors.Is(err, unix.EEXIST) { // by a concurrent call, or by this one before the server's answer was lost
		return t.checkOwner(d.rel, d.owner)
	}
	if err != nil {
		return &fs.PathError{Op: "symlink", Path: ownersDir, Err: err}
	}
	return nil
}

// ownerOf returns the recorded owner of a directory, or "".
func (t *exportTree) ownerOf(rel string) (string, error) {
	owners, err := t.open(ownersDir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer func() { _ = unix.Close(owners) }()
	name := make([]byte, 256)
	n, err := unix.Readlinkat(owners, ownerName(rel), name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", &fs.PathError{Op: "readlink", Path: ownersDir, Err: err}
	}
	return string(name[:n]), nil
}

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
	owners, err := t.open(ownersDir)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(owners) }()
	if err := unix.Unlinkat(owners, ownerName(rel), 0); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &fs.PathError{Op: "unlink", Path: ownersDir, Err: err}
	}
	return nil
}
