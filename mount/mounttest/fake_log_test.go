package mounttest_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/internal/tablepath"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
)

func TestFakeLog(t *testing.T) {
	s := newFakeTest(t)
	require.NoError(t, s.bind("source", "target", "ro"))
	require.NoError(t, s.unmount("target"))
	bad := s.bind("source", "target", "suid")
	require.Error(t, bad)
	s.Inject(mounttest.Fault{Err: syscall.EIO})
	_, failed := s.IsMountPoint(t.Context(), s.path("target"))

	source, target := tablepath.Of(s.path("source")), tablepath.Of(s.path("target"))
	require.Equal(t, []mounttest.Action{
		{
			Op: mounttest.OpMount, Source: source, Target: target,
			Flags: mount.ReadOnly | mount.NoSUID | mount.NoDev, Options: []string{"ro"},
		},
		{Op: mounttest.OpUnmount, Target: target},
		{Op: mounttest.OpMount, Source: source, Target: target, Options: []string{"suid"}, Err: bad},
		{Op: mounttest.OpIsMountPoint, Target: target, Err: failed},
	}, s.Log())

	s.ResetLog()
	require.Empty(t, s.Log())
}

func TestActionString(t *testing.T) {
	for want, action := range map[string]mounttest.Action{
		"":                         {},
		"unmount /b":               {Op: mounttest.OpUnmount, Target: "/b"},
		"unmount /b: no such file": {Op: mounttest.OpUnmount, Target: "/b", Err: errors.New("no such file")},
		`mount /a on /b: ro,nosuid, options ["ro"]`: {
			Op: mounttest.OpMount, Source: "/a", Target: "/b", Flags: mount.ReadOnly | mount.NoSUID, Options: []string{"ro"},
		},
		"mount a:/x on /b: remount, type nfs, submounts included, shared, ID-mapped": {
			Op: mounttest.OpMount, Source: "a:/x", Target: "/b", Remount: true, FSType: "nfs",
			Submounts: mount.IncludeSubmounts, Propagation: mount.PropagationShared, IDMap: mount.IDMap{GIDs: []mount.IDRange{{Count: 1}}},
		},
		"mount /a on /b: submounts hidden, slave": {
			Op: mounttest.OpMount, Source: "/a", Target: "/b", Submounts: mount.HideSubmounts, Propagation: mount.PropagationSlave,
		},
	} {
		require.Equal(t, want, fmt.Sprint(action))
		require.Equal(t, "["+want+"]", fmt.Sprintf("%v", []mounttest.Action{action}))
	}
}

func TestFakeKeepsSecrets(t *testing.T) {
	s := newFakeTest(t)
	const password = "hunter2"
	req := mount.Request{
		Source: "//server/share", Target: s.path("target"), FSType: "cifs",
		Options: []string{"vers=3.0"}, Secrets: []mount.Secret{mount.NewSecret("password=" + password)},
	}
	s.Inject(mounttest.Fault{Op: mounttest.OpMount, Err: syscall.EACCES, Times: 1})
	err := s.Mount(t.Context(), req)
	require.ErrorIs(t, err, syscall.EACCES)
	require.NoError(t, s.Mount(t.Context(), req))
	req.Secrets = []mount.Secret{mount.NewSecret("ro," + password)}
	bad := s.Mount(t.Context(), req)
	require.Error(t, bad)
	for _, thing := range []any{err, bad, s.Log(), s.table(), s.Fake} {
		require.NotContains(t, fmt.Sprintf("%v %+v %#v", thing, thing, thing), password)
	}
}
