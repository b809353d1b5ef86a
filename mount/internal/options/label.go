package options

import (
	"regexp"
	"strings"

	"github.com/volumekit/volumekit/internal/optionlist"
)

// quotedLabel matches an SELinux label in quotes, which keep the commas between its categories
// ("s0:c127,c456") from ending the option. A label has none of the characters that could give a
// second meaning to its parts.
var quotedLabel = regexp.MustCompile(`^"[A-Za-z0-9_.:,-]*"$`)

// isQuotedLabel reports whether an option sets an SELinux label that is written in quotes.
func isQuotedLabel(option string) bool {
	key, value, _ := strings.Cut(option, "=")
	return optionlist.IsLabel(key) && quotedLabel.MatchString(value)
}

// isQuotedComment reports whether an option is for one reader of fstab, with its value in quotes.
// Nobody else reads its commas.
func isQuotedComment(option string) bool {
	key, value, _ := strings.Cut(option, "=")
	inner := Unquote(value)
	return isComment(key) && inner != value && !strings.Contains(inner, `"`)
}

// Unquote returns a value without the quotes around it, if it has any.
func Unquote(value string) string {
	if len(value) > 1 && value[0] == '"' && value[len(value)-1] == '"' {
		return value[1 : len(value)-1]
	}
	return value
}
