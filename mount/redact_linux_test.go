package mount

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRedact(t *testing.T) {
	req := Request{Secrets: []Secret{NewSecret("password=hunter2"), NewSecret("token"), {}}}
	require.Equal(t, "bad value [redacted] of password, [redacted], [redacted]",
		req.redact("bad value hunter2 of password, password=hunter2, token"))
}
