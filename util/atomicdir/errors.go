package atomicdir

import (
	"fmt"
	"strings"

	"github.com/volumekit/volumekit/internal/input"
)

const operation input.Operation = "atomicdir"

// An InputError names the field of the input that was refused. Nothing was changed.
type InputError = input.Error

// A LeftoverError reports that the new set is in place, but that other entries of the
// directory, of an earlier set or a crash, could not be removed. The next Write tries
// again.
type LeftoverError struct {
	Dir   string
	Names []string // at the top of Dir, any bytes
	Err   error
}

// Error names the directory, the entries and the cause.
func (e *LeftoverError) Error() string {
	var names []string
	for _, name := range e.Names {
		names = append(names, input.Quote(name))
	}
	return fmt.Sprintf("remove leftovers of %s: %s: %v", input.Shorten(e.Dir), strings.Join(names, ", "), e.Err)
}

// Unwrap returns the cause.
func (e *LeftoverError) Unwrap() error { return e.Err }
