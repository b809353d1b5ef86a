package mount

import "strings"

// A Secret is a mount option that is shown to the file system only: it prints
// as "[redacted]" with every verb of package fmt, in JSON and as text, also
// when it is a field of something else that is printed.
//
// The zero value is an empty option, which requests refuse.
type Secret struct {
	// A pointer, because package fmt prints what it finds in unexported fields
	// without asking the value, but does not follow a pointer to a string.
	option *string
}

const redacted = "[redacted]"

// NewSecret returns a secret option, such as "password=x".
func NewSecret(option string) Secret { return Secret{&option} }

// Reveal returns the option itself.
func (s Secret) Reveal() string {
	if s.option == nil {
		return ""
	}
	return *s.option
}

// String returns a text without the option.
func (Secret) String() string { return redacted }

// GoString returns a text without the option.
func (Secret) GoString() string { return redacted }

// MarshalText returns a text without the option.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// redact takes the request's secrets, and their values, out of a text that the
// kernel wrote.
func (r Request) redact(text string) string {
	for _, secret := range r.Secrets {
		option := secret.Reveal()
		_, value, _ := strings.Cut(option, "=")
		for _, part := range []string{option, value} {
			if part != "" {
				text = strings.ReplaceAll(text, part, redacted)
			}
		}
	}
	return text
}
