package strace

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	const text = `101 1700000001.000000 futex(0x1, FUTEX_WAIT_PRIVATE, 0, NULL <unfinished ...>
102 1700000002.000000 restart_syscall(<... resuming interrupted futex ...> <unfinished ...>
102 1700000010.500000 <... restart_syscall resumed>) = -1 ETIMEDOUT (Connection timed out)
102 1700000010.500100 nanosleep({tv_sec=0, tv_nsec=20000}, NULL) = 0
102 1700000010.500200 futex(0x1, FUTEX_WAIT_PRIVATE, 0, {tv_sec=60, tv_nsec=0} <unfinished ...>
103 1700000011.000000 read(3, "x", 1) = 1
103 1700000011.000001 +++ exited with 0 +++
103 1700000080.000000 read(3, "x", 1) = 1
101 1700000090.000000 <... futex resumed> <detached ...>) = ?
`
	calls, err := parse(text, time.Unix(1700000005, 0), time.Unix(1700000065, 0))
	require.NoError(t, err)
	require.Equal(t, Calls{
		102: {"nanosleep({tv_sec=0, tv_nsec=20000}, NULL) = 0", "futex(0x1, FUTEX_WAIT_PRIVATE, 0, {tv_sec=60, tv_nsec=0} <unfinished ...>"},
		103: {`read(3, "x", 1) = 1`},
	}, calls)
	_, err = parse("strace: what is this", time.Time{}, time.Time{})
	require.Error(t, err)
}
