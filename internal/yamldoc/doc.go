// Package yamldoc has what all who read the YAML of others should see to.
package yamldoc

import (
	"bytes"
	"slices"
)

// Terminated ends the last line: the reader of documents loses one that fills its buffer
// to the last byte and does not end. What ends already is left alone, as an empty line
// may count in a text.
func Terminated(text []byte) []byte {
	if bytes.HasSuffix(text, []byte("\n")) {
		return text
	}
	return append(slices.Clip(text), '\n')
}
