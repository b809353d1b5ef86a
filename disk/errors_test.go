package disk

import (
	"io/fs"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPermissionErrors: an error of permission names the missing privilege, once, and keeps its
// cause.
func TestPermissionErrors(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.EACCES} {
		err := failed("mount", "/dev/sdx", failed("open", "/dev/sdx", errno))
		require.EqualError(t, err, "open /dev/sdx: requires root in the initial user namespace, or permission for the device: "+errno.Error())
		require.ErrorIs(t, err, fs.ErrPermission)
		require.ErrorIs(t, err, errno)
	}
	require.EqualError(t, failed("mount", "/dev/sdx", syscall.EPERM), "mount /dev/sdx: "+syscall.EPERM.Error())
	require.EqualError(t, failed("open", "/dev/sdx", syscall.EIO), "open /dev/sdx: "+syscall.EIO.Error())
}

// TestToolErrorText: the text ends before the list of options of the program, which Output has.
func TestToolErrorText(t *testing.T) {
	for output, want := range map[string]string{
		"": "mkfs.xfs: exit status 1",
		"too small\nUsage: mkfs.xfs\n[-b size]\n":       "mkfs.xfs: exit status 1: too small",
		"Nothing\nusage: mkfs.btrfs":                    "mkfs.xfs: exit status 1: Nothing",
		"Usage: mkfs.xfs\n":                             "mkfs.xfs: exit status 1: Usage: mkfs.xfs",
		"\u212a\u212a\u212a too small\nUSAGE: mkfs.xfs": "mkfs.xfs: exit status 1: \u212a\u212a\u212a too small",
		" two\n  lines ":                                "mkfs.xfs: exit status 1: two lines",
	} {
		require.EqualError(t, &ToolError{Tool: "mkfs.xfs", ExitCode: 1, Output: output}, want)
	}
}

// TestMissingCapability: a program that failed lacked the capability; one that could not be started, or had the
// capability, failed for another reason.
func TestMissingCapability(t *testing.T) {
	failure, missing := &ToolError{Tool: "resize2fs", ExitCode: 1}, &ToolError{Tool: "resize2fs", ExitCode: -1, Err: ErrToolMissing}
	named := nameCapability(failure, false)
	require.EqualError(t, named, "requires CAP_SYS_RESOURCE in the initial user namespace: "+failure.Error())
	require.ErrorIs(t, named, failure)
	require.Equal(t, failure, nameCapability(failure, true))
	require.Equal(t, missing, nameCapability(missing, false))
	require.NoError(t, nameCapability(nil, false))
}
