package ownership

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/volumekit/volumekit/internal/input"
	"github.com/volumekit/volumekit/util/internal/beneath"
)

const operation input.Operation = "ownership"

// An InputError names the field of the input that was refused. Nothing was changed.
type InputError = input.Error

// An UnchangedError lists entries whose owner or mode could not be changed, or read. All
// other entries are changed, except the directory itself. Entries inside a directory that
// cannot be read are not counted.
type UnchangedError struct{ beneath.Failures }

// Error names the directory, the first entries and the missing privileges.
func (e *UnchangedError) Error() string {
	return e.Describe("ownership of", "could not be changed", beneath.ToChownAndChange)
}

// ErrIgnored is wrapped by the error of an entry whose file system reports a change as done and
// does not make it: vfat with the option quiet, CIFS without owners, some FUSE file systems, and
// servers that map all users to one. If the owner was ignored the mode stays, too. A file system
// without set-group-ID is no error.
var ErrIgnored = errors.New("the file system ignores changes of owner or mode")

// ErrReadOnly is the error of a directory in which nothing can be changed, since its file system
// is read-only, here or on its server, or its mount is. It wraps EROFS. A part that is read-only,
// such as a snapshot, is an [UnchangedError].
var ErrReadOnly = fmt.Errorf("all of it is read-only: %w", syscall.EROFS)

// ErrBusy is the error of a call whose context ends while an earlier call works on the same
// directory, perhaps stuck on a file system that does not answer.
var ErrBusy = beneath.ErrBusy
