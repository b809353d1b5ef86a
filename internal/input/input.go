// Package input has the error for a refused input field, which packages return before they
// change anything, and the rules for names and for values in errors that these packages share.
package input

import (
	"fmt"
	"reflect"
	"strings"
)

// An Error names the field of the input that was refused. Nothing was changed.
type Error struct {
	Operation            string // "scrub": the package whose function was called
	Field, Value, Reason string
}

// Error returns "operation: field value: reason" with the value shortened, as it is
// untrusted.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s %s: %s", e.Operation, e.Field, Quote(e.Value), e.Reason)
}

// An Operation is the package whose functions refuse input.
type Operation string

// Refuse returns an [*Error] with the value as fmt.Sprint prints it.
func (o Operation) Refuse(field string, value any, reason string) *Error {
	return &Error{Operation: string(o), Field: field, Value: fmt.Sprint(value), Reason: reason}
}

// IsNil reports whether a value is nil, or a nil pointer in an interface.
func IsNil(v any) bool {
	if v == nil {
		return true
	}
	r := reflect.ValueOf(v)
	return r.Kind() == reflect.Pointer && r.IsNil()
}

// MaxName is the longest name of a directory entry, in bytes.
const MaxName = 255

// CheckName returns why name is invalid as the name of a directory entry, or "".
func CheckName(name string) (reason string) {
	switch {
	case name == "":
		return "empty"
	case name == "." || name == "..":
		return "not the name of an entry"
	case strings.ContainsAny(name, "/\x00"):
		return "not one component of a path"
	case len(name) > MaxName:
		return "too long"
	}
	return ""
}

// longest is the length of a text from which Quote and Shorten omit the middle.
const longest = 160

// Quote quotes a text and omits the middle of a long one: both ends of a path matter.
func Quote(s string) string {
	if len(s) > longest {
		return fmt.Sprintf("%q...%q", s[:longest/2], s[len(s)-longest/2:])
	}
	return fmt.Sprintf("%q", s)
}

// Shorten omits the middle of a long text, for errors that quote their values themselves.
func Shorten(s string) string {
	if len(s) > longest {
		return strings.ToValidUTF8(s[:longest/2], "") + "..." + strings.ToValidUTF8(s[len(s)-longest/2:], "")
	}
	return s
}
