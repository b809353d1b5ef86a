package beneath_test

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/util/internal/beneath"
)

// TestNamePrivilege: a refusal names the missing privilege once, and wraps its cause.
func TestNamePrivilege(t *testing.T) {
	for err, want := range map[error]string{
		syscall.EACCES: "requires CAP_DAC_OVERRIDE in a user namespace that maps the owner: permission denied",
		syscall.EPERM:  "requires CAP_CHOWN in a user namespace that maps the owner, and no immutable or append-only flag: operation not permitted",
		syscall.EIO:    "input/output error",
		syscall.EINVAL: "invalid argument",
	} {
		named := beneath.NamePrivilege(err, beneath.ToChown)
		require.ErrorIs(t, named, err)
		require.EqualError(t, named, want)
		again := beneath.NamePrivilege(fmt.Errorf("again: %w", named), beneath.ToChange)
		require.EqualError(t, again, "again: "+want)
	}
	require.NoError(t, beneath.NamePrivilege(nil, beneath.ToChange))
}

func TestNameUnmapped(t *testing.T) {
	for want, ids := range map[string][2]int64{
		"user 7":            {7, -1},
		"group 8":           {-1, 8},
		"user 7 or group 8": {7, 8},
	} {
		err := beneath.NameUnmapped(syscall.EINVAL, ids[0], ids[1])
		require.EqualError(t, err, want+" is not mapped in this user namespace: invalid argument")
		require.ErrorIs(t, err, beneath.ErrUnmapped)
		require.ErrorIs(t, err, syscall.EINVAL)
	}
	require.Equal(t, syscall.EIO, beneath.NameUnmapped(syscall.EIO, 7, 8))
}

// TestFailuresNamePrivileges: a list of entries ends with the privilege for each kind of refusal.
func TestFailuresNamePrivileges(t *testing.T) {
	f := beneath.Failures{Root: "/r"}
	f.Add("a", syscall.EACCES)
	f.Add("b", syscall.EIO)
	require.Equal(t, `op "/r": 2 entries stay: "a" (permission denied), "b" (input/output error)`+
		`; permission denied: requires CAP_DAC_OVERRIDE in a user namespace that maps the owner`, f.Describe("op", "stay", beneath.ToChange))
	f.Add("c", syscall.EPERM)
	require.Contains(t, f.Describe("op", "stay", beneath.ToChange), "; operation not permitted: requires CAP_FOWNER in ")
}
