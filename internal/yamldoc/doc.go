// Package yamldoc checks untrusted YAML documents before they are decoded, and describes
// errors of the decoder by field and without secrets.
package yamldoc

import (
	"bytes"
	"slices"
)

// Terminated returns text with a newline at its end: the reader of documents loses an
// unterminated line that fills its buffer to the last byte. It returns terminated text
// unchanged, as an additional empty line may count in a block scalar.
func Terminated(text []byte) []byte {
	if bytes.HasSuffix(text, []byte("\n")) {
		return text
	}
	return append(slices.Clip(text), '\n')
}
