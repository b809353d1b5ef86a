package nfsserver

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLines: the answers to the kernel's questions are the lines that it parses.
func TestLines(t *testing.T) {
	root, a := Export{Dir: "/root", ReadOnly: true}, Export{Dir: "/root/a"}
	tests := []struct {
		table          table
		question, want string
	}{
		{clients("127.0.0.1", "::1"), "nfsd ::1", "nfsd ::1 99 test\n"},
		{clients("127.0.0.1"), "nfsd 192.0.2.1", "nfsd 192.0.2.1 99\n"},
		{directories(root, a), "test /root", "test /root 99 9219 65534 65534 0\n"},
		{directories(root, a), "test /root/a", "test /root/a 99 9218 65534 65534 1\n"},
		{directories(root, Export{Dir: `/a b\c`}), `test /a\040b\134c`, `test /a\040b\134c 99 9218 65534 65534 1` + "\n"},
		{directories(root), "test /root/b", "test /root/b 99\n"},
		{handles(root, a), `test 1 \x00000000`, `test 1 \x00000000 99 /root` + "\n"},
		{handles(root, Export{Dir: "/root/a\n"}), `test 1 \x01000000`, `test 1 \x01000000 99 /root/a\012` + "\n"},
		{handles(root), `test 1 \x02000000`, `test 1 \x02000000 99` + "\n"},
		{directories(root, Export{Dir: "/s", SquashRoot: true}), "test /s", "test /s 99 9222 65534 65534 1\n"},
		{directories(root, Export{Dir: "/r", revoked: true}, a), "test /r", "test /r 99\n"},
		{directories(root, Export{Dir: "/r", revoked: true}, a), "test /root/a", "test /root/a 99 9218 65534 65534 2\n"},
		{handles(root, Export{Dir: "/r", revoked: true}, a), `test 1 \x01000000`, `test 1 \x01000000 99` + "\n"},
		{nil, "test", "test 99\n"},
	}
	for _, test := range tests {
		require.Equal(t, test.want, test.table.line(test.question, 99))
	}
	many := handles(make([]Export, 300)...)
	require.Contains(t, many, `test 1 \x2b010000`)
}
