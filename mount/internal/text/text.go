package text

import "strconv"

// Shorten truncates a long text, so that it cannot fill a log.
func Shorten(s string) string {
	const limit = 256 // enough for the directory of a volume
	if len(s) <= limit {
		return s
	}
	return s[:limit] + "..."
}

// Quote returns a plain path unchanged and another one in quotes: with blanks, quotes,
// backslashes or unprintable characters. Both are shortened.
func Quote(s string) string {
	for _, r := range s {
		if r <= ' ' || r == '"' || r == '\\' || !strconv.IsPrint(r) {
			return strconv.Quote(Shorten(s))
		}
	}
	return Shorten(s)
}
