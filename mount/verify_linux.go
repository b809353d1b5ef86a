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

// verifyAttached asks what became of the mount: it must be right on what was at
// the target before, with the flags that it was given. What others mount on top
// of it in the same instant is theirs to answer for.
//
// Kernels before 6.8 cannot be asked what a mount is on. There it must be what
// the target leads to; that another process has mounted in the same instant,
// below it, goes unnoticed.
func verifyAttached(built *tree, t *target, req Request, o Options) error {
	status, err := statMount(built.fd)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return verifyByLookup(built, t)
	case err != nil:
		return err
	case status.flags&o.Set != o.Set:
		return fmt.Errorf("%w: attached, it is %v", ErrNotAsRequested, status.flags)
	case status.parent != t.mountID && !req.Stack:
		return errOvertaken
	}
	return nil
}

func verifyByLookup(built *tree, t *target) error {
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
	return nil
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
	before, err := statfsFlags(src.fd)
	if err != nil {
		return err
	}
	flags, err := statfsFlags(t.fd)
	if err != nil {
		return err
	}
	return sameFlags(o.Apply(before), flags)
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
		return sameFlags(o.Apply(0), info.Flags)
	}
	return ErrMounted
}

func sameFlags(want, have Flags) error {
	if want != have {
		return fmt.Errorf("%w: it is %v, not %v", ErrMounted, have, want)
	}
	return nil
}
