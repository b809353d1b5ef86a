package nfs

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"

	"github.com/volumekit/volumekit/util/ctxend"
	"github.com/volumekit/volumekit/util/safepath"
	"github.com/volumekit/volumekit/util/scrub"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// delete deletes the directory of a volume with its content, and then its records. Once the deletion has begun all
// errors are uncertain.
func (t *exportTree) delete(ctx context.Context, rel, pvName string) error {
	return t.dispose(ctx, rel, pvName, func(dir int) error {
		if err := t.empty(ctx, rel, dir); err != nil {
			return err
		}
		return volume.AsUncertain(t.removeEmptied(ctx, rel))
	})
}

// removeEmptied removes a directory whose content was deleted. The scrub keeps a directory lost+found, and a pod that
// still runs creates what it likes.
func (t *exportTree) removeEmptied(ctx context.Context, rel string) error {
	if ctx.Err() != nil {
		return ctxend.Error(ctx)
	}
	if err := t.rmdir(rel + "/lost+found"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return t.rmdir(rel)
}

// archive renames the directory of a volume, and then deletes its records. Without keepsEmpty it deletes an empty
// directory instead.
func (t *exportTree) archive(ctx context.Context, rel, pvName string, keepsEmpty bool) error {
	return t.dispose(ctx, rel, pvName, func(int) error {
		if !keepsEmpty {
			if err := t.rmdir(rel); !isOccupied(err) {
				return err
			}
		}
		parent, err := t.open(path.Dir(rel))
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(parent) }()
		return t.rename(ctx, parent, path.Base(rel), archiveName(path.Base(rel), pvName))
	})
}

// dispose calls do with the open directory of a volume unless it is missing. It returns nil for a
// directory with another owner: no owner is recorded over another, so that the volume's own
// directory is gone. A directory with the directories of other volumes, and an entry that is no
// directory, are errors before any change.
func (t *exportTree) dispose(ctx context.Context, rel, pvName string, do func(dir int) error) error {
	owned := (*ownedError)(nil)
	switch err := t.checkOwner(rel, pvName); {
	case errors.As(err, &owned) && owned.owner != parentOwner:
		return outcome(t.forget(pvName))
	case err != nil:
		return outcome(err)
	}
	dir, err := t.open(rel)
	if err == nil {
		defer func() { _ = unix.Close(dir) }()
		if err = ctx.Err(); err == nil {
			err = do(dir)
		}
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		if err = t.disown(rel, pvName); err == nil {
			err = t.forget(pvName)
		}
		return volume.AsUncertain(err) // the directory is gone
	}
	return outcome(err)
}

// empty deletes the content of an open directory.
func (t *exportTree) empty(ctx context.Context, rel string, dir int) error {
	root, err := scrub.Open(ctx, path.Join(t.path, rel))
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if err := isRoot(dir, root.Identity()); err != nil {
		return &fs.PathError{Op: "delete", Path: rel, Err: err}
	}
	_, err = root.Empty(ctx, scrub.Options{})
	return volume.AsUncertain(err)
}

// isRoot returns an error unless the descriptor is of the directory that was opened to be emptied.
func isRoot(dir int, id scrub.Identity) error {
	var is unix.Stat_t
	if err := unix.Fstat(dir, &is); err != nil {
		return err
	}
	mount, err := safepath.MountID(dir)
	if err == nil && (is.Ino != id.Inode || uint64(mount) != id.Mount) {
		err = errMoved
	}
	return err
}

// rename moves a directory to the first free name at the top of the export: a name without an entry, or
// of an empty directory, such as an interrupted call leaves. It creates an empty directory of the
// name first: a rename replaces nothing but an empty directory.
func (t *exportTree) rename(ctx context.Context, parent int, base, name string) error {
	for n := 2; ctx.Err() == nil; n++ {
		free := name
		if n > 2 {
			free += "-" + strconv.Itoa(n-1)
		}
		created, at, err := t.enter(t.fd, free)
		if !created && err != nil && isEntry(err) {
			continue
		}
		if err == nil {
			_ = unix.Close(at)
			if err = unix.Renameat(parent, base, t.fd, free); err == nil {
				return nil
			}
		}
		if created {
			_ = unix.Unlinkat(t.fd, free, unix.AT_REMOVEDIR)
		}
		if !isOccupied(err) {
			return &fs.PathError{Op: "archive", Path: base, Err: err}
		}
	}
	return ctxend.Error(ctx)
}

// isOccupied reports whether an error is of a directory that is not empty.
func isOccupied(err error) bool { return errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) }

// isEntry reports whether an error of enter is of an entry that is not a directory of the export.
func isEntry(err error) bool {
	return errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, errCrossing)
}
