package driver

import (
	"slices"
	"strings"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/volumekit/volumekit/internal/brief"
	"github.com/volumekit/volumekit/internal/oneline"
	"github.com/volumekit/volumekit/internal/optionlist"
)

// tokensKey is the entry of a volume context in which a kubelet passes tokens.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// sensitive are parts of the names of mount options whose values are not shown.
var sensitive = []string{"pass", "secret", "token", "cred", "key"}

// secretsOf returns the texts of a request that must appear in no error and in no log.
func secretsOf(req any) (secrets []string) {
	if r, ok := req.(interface{ GetSecrets() map[string]string }); ok {
		for _, value := range r.GetSecrets() {
			secrets = append(secrets, value)
		}
	}
	if r, ok := req.(interface{ GetVolumeContext() map[string]string }); ok {
		secrets = append(secrets, r.GetVolumeContext()[tokensKey])
	}
	if r, ok := req.(interface {
		GetVolumeCapability() *csipb.VolumeCapability
	}); ok {
		secrets = append(secrets, secretFlags(r.GetVolumeCapability())...)
	}
	if r, ok := req.(interface {
		GetVolumeCapabilities() []*csipb.VolumeCapability
	}); ok {
		for _, c := range r.GetVolumeCapabilities() {
			secrets = append(secrets, secretFlags(c)...)
		}
	}
	return slices.DeleteFunc(secrets, func(s string) bool { return s == "" })
}

// isSensitive reports whether the value of a mount option is not shown.
func isSensitive(name string) bool {
	return slices.ContainsFunc(sensitive, func(part string) bool { return strings.Contains(strings.ToLower(name), part) })
}

// secretFlags returns the values of mount options such as "password=...": to the next comma, to
// the next one outside of quotes, and to the end of the flag, since a value may contain commas.
func secretFlags(c *csipb.VolumeCapability) (values []string) {
	for _, flag := range c.GetMount().GetMountFlags() {
		for _, option := range optionlist.Split(flag) {
			if name, value, _ := strings.Cut(option, "="); isSensitive(name) {
				values = append(values, strings.Trim(value, `"`))
			}
		}
		for rest := flag; rest != ""; {
			option, later, _ := strings.Cut(rest, ",")
			if name, value, _ := strings.Cut(option, "="); isSensitive(name) {
				_, all, _ := strings.Cut(rest, "=")
				values = append(values, value, all)
			}
			rest = later
		}
	}
	return values
}

// withoutSecrets returns a mount flag to the name of its first secret: the value may contain commas, so that its end
// is not known.
func withoutSecrets(flag string) string {
	for rest := flag; rest != ""; {
		option, later, _ := strings.Cut(rest, ",")
		if name, _, ok := strings.Cut(option, "="); ok && isSensitive(name) {
			return flag[:len(flag)-len(rest)] + name
		}
		rest = later
	}
	return flag
}

// shortestPart is the length of the beginning and of the end of a secret that are hidden, too: errors
// shorten long values.
const shortestPart = 8

// messageOf returns the text of an error for a status: one short line without secrets.
func messageOf(err error, secrets []string) string {
	text := err.Error()
	// A longer secret first: a shorter one may be a part of it.
	slices.SortFunc(secrets, func(a, b string) int { return len(b) - len(a) })
	for _, secret := range secrets {
		text = hide(text, secret)
	}
	return brief.Text(oneline.Of(strings.ToValidUTF8(text, "?")))
}

// hide replaces a secret in a text, and its beginning and its end.
func hide(text, secret string) string {
	const stars = "***"
	text = strings.ReplaceAll(text, secret, stars)
	for n := min(len(secret)-1, len(text)); n >= shortestPart; n-- {
		text = strings.ReplaceAll(text, secret[:n], stars)
		text = strings.ReplaceAll(text, secret[len(secret)-n:], stars)
	}
	return text
}
