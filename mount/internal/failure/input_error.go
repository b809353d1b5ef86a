package failure

import (
	"fmt"
	"strconv"

	"github.com/volumekit/volumekit/mount/internal/text"
)

// An InputError is a request or configuration that was refused before any change.
type InputError struct {
	Op     string // the operation; empty: none was called
	Field  string // "Target", "Options[2]"
	Value  string // of the field, shortened; of a secret a placeholder
	Reason string
}

// NewInputError returns an InputError with the untrusted value shortened.
func NewInputError(field, value, reason string) *InputError {
	return &InputError{Field: field, Value: text.Shorten(value), Reason: reason}
}

// Error names the field, the value and the reason.
func (e *InputError) Error() string {
	s := fmt.Sprintf("%s %s: %s", e.Field, strconv.Quote(e.Value), e.Reason)
	if e.Op == "" {
		return s
	}
	return e.Op + ": " + s
}
