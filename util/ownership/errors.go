package ownership

import (
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

// ErrBusy is the error of a call whose context ends while an earlier call works on the same
// directory, perhaps stuck on a file system that does not answer.
var ErrBusy = beneath.ErrBusy
