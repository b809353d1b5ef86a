package unmounting_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount/internal/kernel"
	"github.com/volumekit/volumekit/mount/internal/unmounting"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

// onEachAttachment binds source at target, with the mounts inside it, and passes the attachment
// to test, once for each way in which an attachment names its mount point.
func onEachAttachment(t *testing.T, source, target string, test func(a unmounting.Attachment)) {
	t.Helper()
	for _, byParent := range []bool{true, false} {
		if !byParent && !hasUniqueIDs(t, target) {
			continue
		}
		require.NoError(t, unix.Mount(source, target, "", unix.MS_BIND|unix.MS_REC, ""))
		fd, err := unix.Open(target, unix.O_PATH|unix.O_CLOEXEC, 0)
		require.NoError(t, err)
		a := unmounting.Attachment{FD: fd, Parent: -1}
		if byParent {
			a.Parent, err = unix.Open(filepath.Dir(target), unix.O_PATH|unix.O_CLOEXEC, 0)
			require.NoError(t, err)
			a.Name = filepath.Base(target)
		}
		test(a)
		kernel.Close(a.FD, a.Parent)
		requireUnmounted(t, target)
	}
}

// TestRevertKeepsPeers: the peers of a shared attachment keep the mounts inside.
func TestRevertKeepsPeers(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := newDir(t, "source", "target")
	source, inner := dir+"/source", dir+"/source/inner"
	for _, at := range []string{source, inner} {
		require.NoError(t, os.MkdirAll(at, 0o755))
		mountTmpfs(t, "tmpfs", at)
		require.NoError(t, unix.Mount("", at, "", unix.MS_SHARED, ""))
	}
	require.NoError(t, os.WriteFile(inner+"/file", nil, 0o600))
	onEachAttachment(t, source, dir+"/target", func(a unmounting.Attachment) {
		require.FileExists(t, dir+"/target/inner/file")
		require.NoError(t, unmounting.Revert(t.Context(), a))
		require.FileExists(t, inner+"/file")
		require.NoError(t, unmounting.Revert(t.Context(), a), "Revert is idempotent")
	})
}

// TestRevertKeepsCoveringMount: a mount of another process on top of an attachment stays, and
// so does the attachment, which is busy.
func TestRevertKeepsCoveringMount(t *testing.T) {
	if !mounttest.Namespace(t) {
		return
	}
	dir := newDir(t, "source", "target")
	target := dir + "/target"
	onEachAttachment(t, dir+"/source", target, func(a unmounting.Attachment) {
		mountTmpfs(t, "other", target)
		require.NoError(t, os.WriteFile(target+"/file", nil, 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, unmounting.Revert(ctx, a), unix.EBUSY)
		require.FileExists(t, target+"/file")
		require.NoError(t, unix.Unmount(target, 0))
		require.NoError(t, unmounting.Revert(t.Context(), a))
	})
}
