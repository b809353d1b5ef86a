package nfs_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/nfs"
	"github.com/volumekit/volumekit/volume"
	"golang.org/x/sys/unix"
)

// requireRefused checks that a volume does not come up, that the error says why,
// and that nothing is left. If ctx ends, a busy machine may take the rest of the call down
// later: then the error is uncertain and need not say why.
func (n *node) requireRefused(ctx context.Context, spec *volume.Spec, why ...string) error {
	n.Helper()
	return n.requireRefusedAs(ctx, volume.Transient, spec, why...)
}

func (n *node) requireRefusedAs(ctx context.Context, kind volume.ErrorKind, spec *volume.Spec, why ...string) error {
	n.Helper()
	mounter := n.mounter(spec, "1")
	err := mounter.SetUp(ctx, volume.MounterArgs{})
	require.Error(n, err)
	if ctx.Err() != nil && volume.KindOf(err) == volume.Uncertain {
		isGone := func() bool {
			_, err := os.Lstat(mounter.GetPath())
			return errors.Is(err, fs.ErrNotExist)
		}
		require.Eventually(n, isGone, time.Minute, 10*time.Millisecond)
		kind, why = volume.Uncertain, nil
	}
	require.Equal(n, kind, volume.KindOf(err), "%v", err)
	for _, text := range why {
		require.ErrorContains(n, err, text)
	}
	require.Empty(n, n.mountsBelowRoot())
	n.requireGone(mounter.GetPath())
	return err
}

// TestNFSRefused checks that the error for a volume that cannot be mounted names the cause.
func TestNFSRefused(t *testing.T) {
	for name, c := range map[string]nfs.Config{"each": {}, "one": {OneMountPerExport: true}} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c)
			path := n.exported("a")
			missing := n.pv(path + "/none")
			require.ErrorIs(t, n.requireRefused(n.patientContext(), missing, n.server.Address, path+"/none"), unix.ENOENT)
			file := n.pv(path + "/precious")
			require.ErrorIs(t, n.requireRefused(n.patientContext(), file), unix.ENOTDIR)
			require.ErrorIs(t, n.requireRefused(n.patientContext(), n.pv(path, "port=2050")), unix.ECONNREFUSED)
			n.requireRefusedAs(n.patientContext(), volume.Final, n.pv(path, "fatal_neterrors=none"), "fatal_neterrors")

			nowhere := n.pv(path)
			nfsOf(nowhere).Server = "no-such-host.invalid"
			n.requireRefused(n.patientContext(), nowhere, "no-such-host.invalid")
			unreachable := n.pv(path)
			nfsOf(unreachable).Server = "198.51.100.1"
			n.requireRefused(n.within(time.Second), unreachable, "198.51.100.1")

			n.setUp(n.pv(path), "1")
			n.tearDown(n.pv(path), "1")
		})
	}
}

// TestNFSSilent checks that a server which stops answering at some point of the conversation
// delays its caller no longer than the context, and that a mount which completes later never
// becomes visible.
func TestNFSSilent(t *testing.T) {
	for bytes, c := range map[int64]nfs.Config{0: {}, 100: {}, 500: {OneMountPerExport: true}, 1000: {}} {
		t.Run(strconv.FormatInt(bytes, 10), func(t *testing.T) {
			n := newNode(t, c)
			path := n.exported("a")
			between := newProxy(t, n.server.Port, bytes)
			spec := n.pv(path, "port="+strconv.Itoa(between.port()), "vers=4.2")
			err := n.requireRefused(n.within(500*time.Millisecond), spec, n.server.Address, path)
			require.ErrorIs(t, err, context.DeadlineExceeded)

			between.allowReply()
			at := n.setUp(n.pv(path, "noexec"), "1") // waits for the one that was given up
			require.NotZero(t, at.Flags&mount.NoExec)
			n.tearDown(spec, "1")
			require.Empty(t, n.mountsBelowRoot())
		})
	}
}
