package child

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestIsDead(t *testing.T) {
	tests := []struct {
		err  error
		want bool
	}{
		{nil, false},
		{unix.EIO, false},
		{errAborted, false},
		{unix.ENOTCONN, true},
		{unix.ECONNABORTED, true},
		{fmt.Errorf("statfs: %w", unix.ESTALE), true},
	}
	for _, test := range tests {
		require.Equal(t, test.want, isDead(test.err), "%v", test.err)
	}
}

// childTime does not move, as a variable on a growing stack does.
var childTime unix.Timespec

// TestProcess: the child exits with the error of its last call, and 0 after a success.
func TestProcess(t *testing.T) {
	run := func(calls ...call) error {
		p := new(process)
		require.NoError(t, p.start(calls...))
		return p.reap()
	}
	now := &childTime
	clock := call{number: unix.SYS_CLOCK_GETTIME, a: unix.CLOCK_REALTIME, b: uintptr(unsafe.Pointer(now))}
	bad := call{number: unix.SYS_CLOSE, a: ^uintptr(0)}
	require.NoError(t, run(bad, clock))
	require.NotZero(t, now.Sec, "the child shares memory")
	require.ErrorIs(t, run(clock, bad), unix.EBADF)
}
