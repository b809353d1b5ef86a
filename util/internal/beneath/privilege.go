package beneath

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
)

// ErrUnmapped is wrapped by the error of a change to a user or group that the user namespace, or
// the ID map of the mount, does not map. The same change always fails there.
var ErrUnmapped = errors.New("not mapped in this user namespace")

// NameUnmapped adds [ErrUnmapped] to the EINVAL, or the EOVERFLOW of a mount with an ID map, of a
// chown(2) to a user and a group, of which -1 stays. It returns other errors unchanged.
func NameUnmapped(err error, uid, gid int64) error {
	if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.EOVERFLOW) {
		return err
	}
	ids := fmt.Sprintf("user %d or group %d", uid, gid)
	switch {
	case uid < 0:
		ids = fmt.Sprintf("group %d", gid)
	case gid < 0:
		ids = fmt.Sprintf("user %d", uid)
	}
	return fmt.Errorf("%s is %w: %w", ids, ErrUnmapped, err)
}

// Capabilities are those that avoid the EPERM of an operation on files.
type Capabilities string

// The capabilities for a change of owners, for any other change, and for both.
const (
	ToChown          Capabilities = "CAP_CHOWN"
	ToChange         Capabilities = "CAP_FOWNER"
	ToChownAndChange Capabilities = "CAP_CHOWN and CAP_FOWNER"
)

// A privilegeError names the privilege that a refused call lacked.
type privilegeError struct {
	requirement string
	err         error
}

func (e *privilegeError) Error() string { return e.requirement + ": " + e.err.Error() }

func (e *privilegeError) Unwrap() error { return e.err }

// NamePrivilege adds the missing privilege to an error with EACCES or EPERM. It returns other
// errors, and those that name a privilege already, unchanged.
func NamePrivilege(err error, needed Capabilities) error {
	requirement := needed.requirement(err)
	if requirement == "" || errors.As(err, new(*privilegeError)) {
		return err
	}
	return &privilegeError{requirement, err}
}

// requirement returns the privilege that a call with EACCES or EPERM requires, or "" for other
// errors. The kernel grants a capability over a file only in a user namespace that maps the
// owner of the file. It returns EPERM for immutable files to root as well.
func (c Capabilities) requirement(err error) string {
	switch {
	case errors.Is(err, syscall.EACCES):
		return "requires CAP_DAC_OVERRIDE in a user namespace that maps the owner"
	case errors.Is(err, syscall.EPERM):
		return fmt.Sprintf("requires %s in a user namespace that maps the owner, and no immutable or append-only flag", c)
	}
	return ""
}

// requirements returns the end of a text about entries: what all their refused calls require.
func (f *Failures) requirements(needed Capabilities) string {
	var b strings.Builder
	for _, errno := range []error{syscall.EACCES, syscall.EPERM} {
		if slices.ContainsFunc(f.Entries, func(entry Failure) bool { return errors.Is(entry.Err, errno) }) {
			fmt.Fprintf(&b, "; %v: %s", errno, needed.requirement(errno))
		}
	}
	return b.String()
}
