package options

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedact(t *testing.T) {
	for _, test := range []struct {
		secrets    []string
		text, want string
	}{
		{[]string{"password=e"}, "mount error(13): Permission denied", Withheld},
		{[]string{"password=e"}, "no luck", "no luck"},
		{[]string{"password=error"}, "mount error(13)", Withheld},
		{[]string{"password=e"}, "password=e", Redacted},
		{[]string{"password=hunter2", "token=hunter2-more"}, "hunter2-more hunter2", "[redacted] [redacted]"},
		{[]string{"password=hunter2", "name=a"}, "bad hunter2", Withheld},
		{[]string{"password=hunter2", "name=a"}, "ok hunter2", "ok [redacted]"},
		{[]string{"password=redact"}, "redact is redacted", "[redacted] is [redacted]ed"},
	} {
		var secrets []Secret
		for _, secret := range test.secrets {
			secrets = append(secrets, NewSecret(secret))
		}
		require.Equal(t, test.want, Redact(test.text, secrets), test.secrets)
	}
	secrets := []Secret{NewSecret("password=hunter2"), NewSecret("a token"), {}}
	require.Equal(t, "bad value [redacted] of password, [redacted], [redacted]",
		Redact("bad value hunter2 of password, password=hunter2, a token", secrets))
}
