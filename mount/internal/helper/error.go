package helper

import (
	"fmt"
	"strings"
	"unicode"
)

// An Error is the error of a helper that is missing or has failed.
type Error struct {
	Helper string // path, or the name of a missing helper
	Output string // shortened, without secrets
	Err    error  // the cause
}

// Error names the helper, the cause and the output.
func (e *Error) Error() string {
	if e.Output == "" {
		return fmt.Sprintf("%s: %v", e.Helper, e.Err)
	}
	return fmt.Sprintf("%s: %v: %s", e.Helper, e.Err, e.Output)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// makePrintable turns the output of a program into one line of limited length.
func makePrintable(text string) string {
	const limit = 2048
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " ")
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
	if len(text) > limit {
		return strings.ToValidUTF8(text[:limit], "") + "..."
	}
	return text
}
