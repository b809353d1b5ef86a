package mounting

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/building"
	"github.com/volumekit/volumekit/mount/internal/failure"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/options"
	"github.com/volumekit/volumekit/mount/internal/record"
	"github.com/volumekit/volumekit/mount/internal/spec"
	"golang.org/x/sys/unix"
)

func TestVerifyFlags(t *testing.T) {
	status := func(flags options.Flags) record.Basic { return record.Basic{Attrs: flags.Attributes()} }
	readOnlyDisk := record.Basic{SuperReadOnly: true}
	both := status(options.ReadOnly | options.NoAtime)
	both.SuperReadOnly = true
	for _, test := range []struct {
		name    string
		status  record.Basic
		options options.Options
		ok      bool
	}{
		{"no options", both, options.Options{}, true},
		{"as requested", status(options.ReadOnly | options.NoSUID), options.Options{Set: options.ReadOnly | options.NoSUID, Clear: options.NoExec}, true},
		{"a flag is missing", status(options.NoSUID), options.Options{Set: options.ReadOnly | options.NoSUID}, false},
		{"a flag too many", status(options.NoExec), options.Options{Clear: options.NoExec}, false},
		{"writable on a read-only file system", readOnlyDisk, options.Options{Clear: options.ReadOnly}, false},
	} {
		err := verifyFlags(test.status, test.options)
		if test.ok {
			require.NoError(t, err, test.name)
		} else {
			require.ErrorIs(t, err, failure.ErrNotAsRequested, test.name)
		}
	}
}

// TestVerifyByLookup verifies as before Linux 6.8.
func TestVerifyByLookup(t *testing.T) {
	if !inNamespace(t) {
		return
	}
	dir := newTmpfs(t, "target")
	m := newMaker()
	before := noTarget
	require.NoError(t, before.openInParent(t.Context(), m.Resolver.WithoutLinks(), dir+"/target"))
	defer before.close()
	require.NoError(t, unix.Mount("x", dir+"/target", "tmpfs", unix.MS_RDONLY, ""))
	mounted := arrival{maker: m, spec: &spec.Spec{Target: dir + "/target"}}
	require.NoError(t, mounted.openTarget(t.Context()))
	require.True(t, mounted.target.mounted)

	verify := func(fd int, o options.Options) error {
		a := arrival{maker: m, spec: &spec.Spec{Options: o}, target: before, tree: &building.Tree{FD: fd}}
		return a.verifyByLookup()
	}
	require.NoError(t, verify(mounted.target.fd, options.Options{}))
	require.ErrorIs(t, verify(mounted.target.fd, options.Options{Clear: options.ReadOnly}), failure.ErrNotAsRequested)
	mounted.close()
	require.NoError(t, unix.Unmount(dir+"/target", 0))
	proc, err := unix.Open("/proc", unix.O_PATH|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	defer kernel.Close(proc)
	require.ErrorIs(t, verify(proc, options.Options{}), failure.ErrNotAsRequested,
		"the target leads to the directory again")
}
