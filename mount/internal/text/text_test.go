package text

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuote(t *testing.T) {
	long := strings.Repeat("x", 257)
	tests := []struct{ in, want string }{
		{"", ""},
		{"/var/lib/volumes", "/var/lib/volumes"},
		{"/a b", `"/a b"`},
		{"/a\nb", `"/a\nb"`},
		{`/a"b`, `"/a\"b"`},
		{`/a\b`, `"/a\\b"`},
		{"/\u202e", `"/\u202e"`},
		{long, long[:256] + "..."},
	}
	for _, test := range tests {
		require.Equal(t, test.want, Quote(test.in))
	}
}
