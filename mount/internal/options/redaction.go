package options

import (
	"slices"
	"strings"
)

// minRedacted is the minimum length in bytes of a secret that Redact replaces. A shorter
// one can be part of an ordinary word: its replacement would mangle the text and show the
// position of the secret.
const minRedacted = 6

// Withheld replaces a text that contains a secret that is too short to be replaced.
const Withheld = "[withheld: it may contain a secret]"

// Redact removes the secrets and their values from a text of the kernel or of a program.
func Redact(text string, secrets []Secret) string {
	var long, short []string
	for _, secret := range secrets {
		option := secret.Reveal()
		_, value, _ := strings.Cut(option, "=")
		for _, part := range []string{option, strings.TrimSpace(value)} {
			switch {
			case len(part) >= minRedacted:
				long = append(long, part)
			case part != "":
				short = append(short, part)
			}
		}
	}
	pieces := splitAt(text, long)
	for _, part := range short {
		if slices.ContainsFunc(pieces, func(piece string) bool { return strings.Contains(piece, part) }) {
			return Withheld
		}
	}
	return strings.Join(pieces, Redacted)
}

// splitAt splits a text at the parts, the longest first, since a part may contain another.
func splitAt(text string, parts []string) []string {
	slices.SortFunc(parts, func(a, b string) int { return len(b) - len(a) })
	pieces := []string{text}
	for _, part := range parts {
		var smaller []string
		for _, piece := range pieces {
			smaller = append(smaller, strings.Split(piece, part)...)
		}
		pieces = smaller
	}
	return pieces
}
