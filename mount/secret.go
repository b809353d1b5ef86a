package mount

import "github.com/volumekit/volumekit/mount/internal/options"

// A Secret is a mount option that is shown to the file system only: it prints
// as "[redacted]" with every verb of package fmt, in JSON and as text, also
// when it is a field of another value that is printed.
//
// The zero value is an empty option, which requests refuse.
type Secret struct{ option options.Secret }

// NewSecret returns a secret option, such as "password=x".
func NewSecret(option string) Secret { return Secret{options.NewSecret(option)} }

// Reveal returns the option itself.
func (s Secret) Reveal() string { return s.option.Reveal() }

// String returns a text without the option.
func (s Secret) String() string { return s.option.String() }

// GoString returns a text without the option.
func (s Secret) GoString() string { return s.option.GoString() }

// MarshalText returns a text without the option.
func (s Secret) MarshalText() ([]byte, error) { return s.option.MarshalText() }

func internalSecrets(secrets []Secret) (internal []options.Secret) {
	for _, s := range secrets {
		internal = append(internal, s.option)
	}
	return internal
}
