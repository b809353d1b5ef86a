package options

import "github.com/volumekit/volumekit/mount/internal/failure"

// A Secret is an option that prints as [Redacted] with every verb of package fmt, as JSON and
// as text, also inside other printed values.
type Secret struct {
	// A pointer, since package fmt prints unexported fields without calling methods, but
	// prints the address of a string behind a pointer.
	option *string
}

// Redacted stands for a secret in texts.
const Redacted = "[redacted]"

// NewSecret returns a secret option, such as "password=x".
func NewSecret(option string) Secret { return Secret{&option} }

// Reveal returns the option.
func (s Secret) Reveal() string {
	if s.option == nil {
		return ""
	}
	return *s.option
}

// String returns [Redacted].
func (Secret) String() string { return Redacted }

// GoString returns [Redacted].
func (Secret) GoString() string { return Redacted }

// MarshalText returns [Redacted].
func (Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// CheckSecrets checks secrets, beside options that [Parse] has accepted.
func CheckSecrets(secrets []Secret, list []string, allow Allow) error {
	var seen contradictions
	for i, option := range list {
		_ = seen.add(FieldOf("Options", i), option) // Parse has found no contradiction
	}
	for i, secret := range secrets {
		field := FieldOf("Secrets", i)
		option := secret.Reveal()
		if checkOption(field, option, allow) != nil {
			return failure.NewInputError(field, Redacted, "requests must not have this option")
		}
		if _, isFlag := flagOptions[option]; isFlag || isIgnored(option) {
			return failure.NewInputError(field, Redacted, "must be an option of the file system")
		}
		if seen.add(field, option) != nil {
			return failure.NewInputError(field, Redacted, "contradicts another option")
		}
	}
	return nil
}
