package boot

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/guest"
)

func TestListen(t *testing.T) {
	crlf := strings.TrimSuffix(guest.Begin, "\n") + "\r\n"
	tests := []struct {
		name, console, out string
		want               report
	}{
		{"nothing", "", "", report{}},
		{"no boot", "Core dump limits\npanic", "", report{kernel: "Core dump limits\npanic"}},
		{"no output", guest.Begin + guest.End(0), "", report{began: true, ended: true}},
		{"usual", "hm\r\n" + crlf + "ok\n" + guest.End(3) + "Power down", "ok\n", report{began: true, ended: true, code: 3, kernel: "hm\r\n"}},
		{"last line open", guest.Begin + "a\nb" + guest.End(1), "a\nb", report{began: true, ended: true, code: 1}},
		{"other bytes", guest.Begin + "\x16=== RUN\r\n\x01x\n" + guest.End(0), "\x16=== RUN\r\n\x01x\n", report{began: true, ended: true}},
		{"died", guest.Begin + "a\npart", "a\npart", report{began: true}},
	}
	for _, test := range tests {
		for name, reader := range map[string]io.Reader{
			"whole":  strings.NewReader(test.console),
			"pieces": iotest.OneByteReader(strings.NewReader(test.console)),
		} {
			t.Run(test.name+"/"+name, func(t *testing.T) {
				var out strings.Builder
				began := false
				got, err := listen(reader, &out, func() { began = true })
				require.NoError(t, err)
				require.Equal(t, test.want, got)
				require.Equal(t, test.want.began, began)
				require.Equal(t, test.out, out.String())
			})
		}
	}
}

func TestListenFails(t *testing.T) {
	broken := errors.New("broken")
	_, err := listen(iotest.ErrReader(broken), io.Discard, func() {})
	require.ErrorIs(t, err, broken)

	r, w := io.Pipe()
	require.NoError(t, r.CloseWithError(broken))
	_, err = listen(strings.NewReader(guest.Begin+"x\n"), w, func() {})
	require.ErrorIs(t, err, broken)
}
