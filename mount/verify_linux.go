package mount

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// errOvertaken: between the look at the target and the mount something else was
// mounted there.
var errOvertaken = errors.New("another mount came first")

// verifyTree compares the mount with what was asked, before anyone sees it.
func verifyTree(built *tree, src *source, o Options) error {
	flags, err := statfsFlags(built.fd)
	if err != nil {
		return err
	}
	if missing := o.Set &^ flags; missing != 0 {
		return fmt.Errorf("%w: it is %v, without %v", ErrNotAsRequested, flags, missing)
	}
	if extra := o.Clear & flags; extra != 0 {
		return fmt.Errorf("%w: it is %v", ErrNotAsRequested, flags)
	}
	if src == nil {
		return nil
	}
	id, err := identify(built.fd)
	if err != nil {
		return err
	}
	if !id.sameObject(src.id) {
		return fmt.Errorf("%w: it shows something else than the source", ErrNotAsRequested)
	}
	return nil
}

// verifyAttached asks whether looking up the target arrives at the mount, with
// the flags that it was given, right on what was there before.
func verifyAttached(built *tree, t *target, req Request, o Options) error {
	want, err := identify(built.fd)
	if err != nil {
		return err
	}
	at, err := mountAt(t.parent, t.name)
	if err != nil {
		return err
	}
	if at != want.mount {
		return fmt.Errorf("%w: the target leads to mount %d, not to %d", ErrNotAsRequested, at, want.mount)
	}
	status, err := statMount(built.fd)
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // the flags were verified before; the parent cannot be had cheaply
	}
	if err != nil {
		return err
	}
	if status.flags&o.Set != o.Set {
		return fmt.Errorf("%w: attached, it is %v", ErrNotAsRequested, status.flags)
	}
	if status.parent != t.mountID && !req.Stack {
		return errOvertaken
	}
	return nil
}

// mountAt returns the number of the mount that name, a mount point, leads to.
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
	before, err := statfsFlags(src.fd)
	if err != nil {
		return err
	}
	flags, err := statfsFlags(t.fd)
	if err != nil {
		return err
	}
	return sameFlags(o.over(before), flags)
}

// checkMountedFileSystem goes by the mount table: the file system itself may not
// answer, and each new tmpfs is another one.
func checkMountedFileSystem(t *target, req Request, o Options) error {
	table, err := readTable()
	if err != nil {
		return err
	}
	for _, info := range table {
		if uint64(info.ID) != t.mountID {
			continue
		}
		if info.Root != "/" || info.FSType != req.FSType || info.Source != req.Source {
			return fmt.Errorf("%w: %s %s", ErrMounted, quote(info.FSType), quote(info.Source))
		}
		return sameFlags(o.over(0), info.Flags)
	}
	return ErrMounted
}

func sameFlags(want, have Flags) error {
	if want != have {
		return fmt.Errorf("%w: it is %v, not %v", ErrMounted, have, want)
	}
	return nil
}
