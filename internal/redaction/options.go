package redaction

import (
	"slices"
	"strings"

	"github.com/volumekit/volumekit/internal/optionlist"
)

// sensitiveNames are parts of the names of mount options whose values are secrets.
var sensitiveNames = []string{"pass", "secret", "token", "cred", "key"}

// IsSensitive reports whether the name of an option looks like that of a secret.
func IsSensitive(option string) bool {
	return slices.ContainsFunc(sensitiveNames, func(part string) bool { return strings.Contains(strings.ToLower(option), part) })
}

// OptionSecrets returns the secrets in a mount flag such as "username=u,password=p": a value to the next comma, to the
// next one outside of quotes, and to the end of the flag, since a value may contain commas.
func OptionSecrets(flag string) (secrets []string) {
	for _, option := range optionlist.Split(flag) {
		if name, value, _ := strings.Cut(option, "="); IsSensitive(name) {
			secrets = append(secrets, strings.Trim(value, `"`))
		}
	}
	for rest := flag; rest != ""; {
		option, later, _ := strings.Cut(rest, ",")
		if name, value, _ := strings.Cut(option, "="); value != "" && IsSensitive(name) {
			_, all, _ := strings.Cut(rest, "=")
			secrets = append(secrets, value, all)
		}
		rest = later
	}
	return secrets
}

// BareOption returns a mount flag to the name of its first secret: the value may contain commas, so that its end is
// not known.
func BareOption(flag string) string {
	for rest := flag; rest != ""; {
		option, later, _ := strings.Cut(rest, ",")
		if name, _, ok := strings.Cut(option, "="); ok && IsSensitive(name) {
			return flag[:len(flag)-len(rest)] + name
		}
		rest = later
	}
	return flag
}

// Option returns a mount flag without its secrets, for errors.
func Option(flag string) string { return Text(flag, OptionSecrets(flag)) }

// IsRedacted reports whether a mount flag has lost secrets.
func IsRedacted(flag string) bool { return strings.Contains(flag, Marker) }
