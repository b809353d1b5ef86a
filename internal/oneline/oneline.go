// Package oneline keeps what anybody may have written from being more than one line, or
// from moving the cursor, where it is printed.
package oneline

import (
	"strings"
	"unicode"
)

// Of returns the text with a blank for each control character and each separator of
// lines.
func Of(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}
