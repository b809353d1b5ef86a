package nfsserver

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// callPrograms sends a call to programs and returns the reply.
func callPrograms(t *testing.T, p programs, program, version, procedure uint32, args xdr) xdr {
	t.Helper()
	ours, theirs := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- answerCalls(theirs, p.answer) }()
	message := append(numbers(7, 0, 2, program, version, procedure, 1), opaque([]byte("uid"))...)
	message = slices.Concat(message, numbers(0, 0), args)
	_, err := ours.Write(append(numbers(uint32(len(message))|lastFragment), message...))
	require.NoError(t, err)
	reply, err := readMessage(ours)
	require.NoError(t, err)
	require.NoError(t, ours.Close())
	require.ErrorIs(t, <-done, io.EOF)
	require.EqualValues(t, 7, reply.number())
	require.EqualValues(t, 1, reply.number())
	return reply
}

func TestPrograms(t *testing.T) {
	p := programs{"127.0.0.1", map[uint32]int{mountProgram: 0x1234}, func(dir string) ([]byte, error) {
		if dir != "/dir" {
			return nil, errors.New("not there")
		}
		return []byte("handle"), nil
	}}
	done := numbers(0, 0, 0, 0)
	tests := []struct {
		name                        string
		program, version, procedure uint32
		args, want                  xdr
	}{
		{"registered", portmapProgram, 4, 1, numbers(1, 2, 3), append(done, numbers(1)...)},
		{"port", portmapProgram, 2, 3, numbers(mountProgram, 3, 6, 0), append(done, numbers(0x1234)...)},
		{"address", portmapProgram, 4, 3, numbers(mountProgram), append(done, opaque([]byte("127.0.0.1.18.52"))...)},
		{"nobody's address", portmapProgram, 4, 3, numbers(5), append(done, numbers(0)...)},
		{"null", mountProgram, 3, 0, nil, done},
		{"mount", mountProgram, 3, 1, opaque([]byte("/dir")), slices.Concat(done, numbers(0), opaque([]byte("handle")), numbers(1, 1))},
		{"not there", mountProgram, 3, 1, opaque([]byte("/x")), append(done, numbers(2)...)},
		{"cut short", mountProgram, 3, 1, numbers(1 << 30), append(done, numbers(2)...)},
		{"no such procedure", mountProgram, 3, 9, nil, numbers(0, 0, 0, 3)},
		{"no such program", 1, 1, 1, nil, numbers(0, 0, 0, 3)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, callPrograms(t, p, test.program, test.version, test.procedure, test.args))
		})
	}
}

func TestMalformedCalls(t *testing.T) {
	for _, message := range []xdr{nil, numbers(1), numbers(7, 1, 0), numbers(7, 0, 3)} {
		_, ok := parseCall(message)
		require.False(t, ok)
	}
	c, ok := parseCall(numbers(7, 0, 2, 5, 6, 7, 1, 1<<31))
	require.True(t, ok)
	require.Zero(t, c.args.number())
}
