package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"golang.org/x/sys/unix"
)

// errOvertaken: between the look at the target and the mount something else was
// mounted there.
var errOvertaken = fmt.Errorf("%w, in the same instant", ErrMounted)

// verifyTree compares the mount with its source, before anyone sees it. It waits
// for no server.
func verifyTree(built *tree, src *source) error {
	if src == nil {
		return nil
	}
	id, err := built.identify()
	if err != nil {
		return err
	}
	if !id.sameObject(src.id) {
		return fmt.Errorf("%w: it shows something else than the source", ErrNotAsRequested)
	}
	return nil
}

// verifyAttached asks the mount table what became of the mount: it must be right
// on what was at the target before, with the flags that it was given. What others
// mount on top of it in the same instant is theirs to answer for.
//
// Before Linux 6.8 one mount cannot be asked about alone. There it must be what
// the target leads to; that another process has mounted in the same instant,
// below it, goes unnoticed, and of the flags the word of the call that set them
// is taken, all or none.
func verifyAttached(built *tree, t *target, req Request, o Options) error {
	status, err := built.status()
	if errors.Is(err, errors.ErrUnsupported) {
		if err := settlePropagation(built, req); err != nil {
			return err
		}
		return verifyByLookup(built, t, o)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errOvertaken // and taken down with the one that it had come to lie on
	}
	if err != nil {
		return err
	}
	if status.parent != t.mountID && !req.Stack {
		return errOvertaken
	}
	if err := status.verify(o); err != nil {
		return err
	}
	if !status.idMapped && !req.IDMap.empty() {
		return fmt.Errorf("%w: its IDs are not mapped", ErrNotAsRequested)
	}
	if status.propagation&unix.MS_SHARED != 0 {
		return settlePropagation(built, req)
	}
	return nil
}

// identify learns the mount's own number by the way.
func (t *tree) identify() (identity, error) {
	var x unix.Statx_t
	const mask = unix.STATX_TYPE | unix.STATX_INO | unix.STATX_MNT_ID_UNIQUE
	if err := unix.Statx(t.fd, "", unix.AT_EMPTY_PATH|quiet, mask, &x); err != nil {
		return identity{}, err
	}
	if x.Mask&unix.STATX_MNT_ID_UNIQUE == 0 {
		return identify(t.fd)
	}
	t.unique = x.Mnt_id
	return identityOf(&x), nil
}

// status asks about the tree, which must be attached.
func (t *tree) status() (mountStatus, error) {
	if t.unique != 0 {
		return statMountID(t.unique)
	}
	return statMount(t.fd)
}

// verify compares what a mount is with what was asked for by name.
func (s mountStatus) verify(o Options) error {
	switch {
	case s.flags&o.Set != o.Set, s.flags&o.Clear != 0:
		return fmt.Errorf("%w: it is %v", ErrNotAsRequested, s.flags)
	case s.superReadOnly && o.Clear&ReadOnly != 0:
		return fmt.Errorf("%w: its file system is read-only", ErrNotAsRequested)
	}
	return nil
}

func verifyByLookup(built *tree, t *target, o Options) error {
	want, err := identify(built.fd)
	if err != nil {
		return err
	}
	at, err := mountAt(t.parent, t.name)
	if err != nil {
		return err
	}
	if at != want.mount && at == t.mountID {
		return fmt.Errorf("%w: the target does not lead to it", ErrNotAsRequested)
	}
	if o.Clear&ReadOnly == 0 {
		return nil
	}
	status, err := statusOf(built.fd) // reads the table, but hardly anyone says "rw"
	if err != nil {
		return err
	}
	return status.verify(o)
}

// mountAt returns the number of the mount that name leads to.
func mountAt(parent int, name string) (uint64, error) {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer closeFD(fd)
	id, err := identify(fd)
	return id.mount, err
}

// checkMounted decides what a target means that is a mount point already: nil if
// it is what the request asks for.
func checkMounted(t *target, src *source, req Request, o Options) error {
	if src == nil {
		return checkMountedFileSystem(t, req, o)
	}
	there, err := identify(t.fd)
	if err != nil {
		return err
	}
	if !there.sameObject(src.id) {
		return ErrMounted
	}
	before, err := statusOf(src.fd)
	if err != nil {
		return err
	}
	now, err := statusOf(t.fd)
	if errors.Is(err, fs.ErrNotExist) {
		return errOvertaken // it has been unmounted meanwhile
	}
	if err != nil {
		return err
	}
	if err := checkIDMap(t, req, now.idMapped, before.idMapped); err != nil {
		return err
	}
	return sameFlags(o.Apply(before.flags), now.flags)
}

// checkMountedFileSystem goes by the mount table: the file system itself may not
// answer, and each new tmpfs is another one. Options for the file system are not
// compared: the table shows them as the file system spells them, if at all.
func checkMountedFileSystem(t *target, req Request, o Options) error {
	info, err := tableEntry(t.fd)
	if errors.Is(err, fs.ErrNotExist) {
		return errOvertaken
	}
	if err != nil {
		return err
	}
	if info.Root != "/" || !isMountOf(info, req) {
		return fmt.Errorf("%w: %s %s", ErrMounted, quote(info.FSType), quote(info.Source))
	}
	if err := checkIDMap(t, req, slices.Contains(info.Options, "idmapped"), false); err != nil {
		return err
	}
	return sameFlags(o.Apply(0), info.Flags)
}

// checkIDMap compares what is mapped, now and in the source.
func checkIDMap(t *target, req Request, now, before bool) error {
	if now != (before || !req.IDMap.empty()) {
		return fmt.Errorf("%w: its IDs are mapped: %t", ErrMounted, now)
	}
	if !sameIDMap(t.fd, req.IDMap) {
		return fmt.Errorf("%w: its IDs are mapped otherwise", ErrMounted)
	}
	return nil
}

func sameFlags(want, have Flags) error {
	if want != have {
		return fmt.Errorf("%w: it is %v, not %v", ErrMounted, have, want)
	}
	return nil
}
