package nfsserver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnswerTracking(t *testing.T) {
	tests := []struct{ message, want string }{
		{"", ""},
		{"\x02\x00\xff\xff1234", ""},
		{"\x02\x00\xf8\xff1234\x03\x00abc", "\x02\x00\x00\x001234\x03\x00abc"},
		{"\x01\x05\xf8\xff1234\x00rest", "\x01\x05\x00\x001234\x02rest"},
	}
	for _, test := range tests {
		message := []byte(test.message)
		require.Equal(t, test.want, string(answerTracking(message)))
		require.Equal(t, test.message, string(message))
	}
}
