// Package oneline makes untrusted text safe to print: it stays in one line and does not
// move the cursor.
package oneline

import (
	"strings"
	"unicode"
)

// Of returns the text with a blank for each control character and each line separator.
func Of(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, text)
}
