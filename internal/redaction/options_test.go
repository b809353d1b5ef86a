package redaction

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestBareOption: a mount flag ends with the name of its first secret.
func TestBareOption(t *testing.T) {
	for flag, want := range map[string]string{
		"":                               "",
		"hard":                           "hard",
		"nfsvers=4.1,hard":               "nfsvers=4.1,hard",
		"password=p":                     "password",
		"password=":                      "password",
		"username=u,Password=a,b,c=d":    "username=u,Password",
		"username=u,,token=t,password=p": "username=u,,token",
		"nokey":                          "nokey",
	} {
		require.Equal(t, want, BareOption(flag), flag)
	}
}
