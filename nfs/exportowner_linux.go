package nfs

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"
)

// own records the owners of a directory and of its parents, before they are created. A record is a
// symbolic link, which the server creates at once and with its content, or not at all; its target
// is the owner, and is never followed. Records of parents stay, like the parents.
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
	for _, one := range all {
		if err := t.record(one); err != nil {
			return err
		}
	}
	return nil
}

// checkFree refuses a directory with another owner, and one that exists without a record unless it
// is given.
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
		return &fs.PathError{Op: "mkdir", Path: d.rel, Err: errOccupied}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// record records an owner, unless it is recorded.
func (t *exportTree) record(d ownedDirectory) error {
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
	if errors.Is(err, unix.EEXIST) { // by an earlier or a concurrent call, or by this one before the server's answer was lost
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
