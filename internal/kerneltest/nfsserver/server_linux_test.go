package nfsserver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/internal/kerneltest/nfsserver"
	"github.com/volumekit/volumekit/mount/mounttest"
	"golang.org/x/sys/unix"
)

var versions = []string{"4.0", "4.1", "4.2"}

// TestNFSVersions: the server speaks them all, to both ways of mounting, also with
// several directories.
func TestNFSVersions(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	server := nfsserver.Start(t, dirs...)
	for _, version := range versions {
		for way, mount := range map[string]mounter{"mount": oldMount, "fsmount": newMount} {
			t.Run(version+"/"+way, func(t *testing.T) {
				for _, dir := range dirs {
					target := mount(t, server.Source(dir), server.Options(version))
					requireShared(t, dir, target)
					require.Contains(t, mountinfo(t, target), "vers="+version+",")
				}
			})
		}
	}
}

// TestNFSRestart: mounts wait for the server while it is stopped, and so do files that
// are open.
func TestNFSRestart(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.Start(t, dir)
	var files []*os.File
	for _, version := range versions {
		target := oldMount(t, server.Source(dir), server.Options(version)+",noac")
		file, err := os.Create(target + "/" + version)
		require.NoError(t, err)
		require.NoError(t, file.Sync())
		files = append(files, file)
	}

	require.NoError(t, server.Stop())
	require.NoError(t, server.Stop(), "twice")
	var written []<-chan error
	for _, file := range files {
		written = append(written, startCall(func() error {
			_, err := file.WriteString("written")
			return errors.Join(err, file.Sync(), file.Close())
		}))
	}
	for i := range files {
		requireWaiting(t, written[i])
	}
	require.NoError(t, server.Start())
	require.NoError(t, server.Start(), "twice")
	for i, file := range files {
		require.NoError(t, result(t, written[i]))
		requireContent(t, dir+"/"+versions[i], "written")
		requireShared(t, dir, filepath.Dir(file.Name()))
	}
}

// TestNFSLink checks that a hard mount waits while the link is down, and continues
// afterwards.
func TestNFSLink(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.Start(t, dir)
	target := oldMount(t, server.Source(dir), server.Options("4.2")+",hard,noac")
	requireShared(t, dir, target)
	require.NoError(t, server.LinkDown())
	looked := startCall(func() error {
		_, err := os.Stat(target + "/file")
		return err
	})
	requireWaiting(t, looked)
	require.NoError(t, server.LinkUp())
	require.NoError(t, result(t, looked))
}

// TestNFSRefused checks that a directory without an export is not found, and that a stopped
// server refuses connections at once.
func TestNFSRefused(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	server := nfsserver.Start(t, dir)
	target, options := t.TempDir(), server.Options("4.2")
	for _, path := range []string{other, dir + "/none", "/none"} {
		require.ErrorIs(t, unix.Mount(server.Source(path), target, "nfs4", 0, options), unix.ENOENT, path)
	}
	require.NoError(t, server.Stop())
	require.ErrorIs(t, unix.Mount(server.Source(dir), target, "nfs4", 0, options), unix.ECONNREFUSED)
}

func TestNFSIPv6(t *testing.T) {
	dir := t.TempDir()
	server := nfsserver.Start(t, dir)
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		mounttest.SkipWithout(t, "ipv6", err)
	}
	place := server.At(nfsserver.IPv6)
	target := oldMount(t, place.Source(dir), place.Options("4.2"))
	requireShared(t, dir, target)
	require.Contains(t, mountinfo(t, target), "addr="+nfsserver.IPv6)
}

// TestNFSServerIsRemoved checks that a stopped server leaves no mount and no goroutine, and
// that another one can start.
func TestNFSServerIsRemoved(t *testing.T) {
	t.Run("first", func(t *testing.T) { nfsserver.Start(t, t.TempDir()) })
	before, check := mountinfo(t, ""), mounttest.NoLeaks(t)
	t.Run("next", func(t *testing.T) { nfsserver.Start(t, t.TempDir()) })
	check()
	require.Equal(t, before, mountinfo(t, ""))
	threads, err := os.ReadDir("/proc/fs/nfsd")
	require.NoError(t, err)
	require.Empty(t, threads)
}

// A mounter mounts somewhere, until the test ends.
type mounter func(t *testing.T, source, options string) (target string)

func oldMount(t *testing.T, source, options string) (target string) {
	t.Helper()
	target = t.TempDir()
	require.NoError(t, unix.Mount(source, target, "nfs4", 0, options))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(target, 0)) })
	return target
}

func newMount(t *testing.T, source, options string) (target string) {
	t.Helper()
	target = t.TempDir()
	context, err := unix.Fsopen("nfs4", unix.FSOPEN_CLOEXEC)
	require.NoError(t, err)
	defer func() { _ = unix.Close(context) }()
	for option := range strings.SplitSeq("source="+source+","+options, ",") {
		key, value, _ := strings.Cut(option, "=")
		require.NoError(t, unix.FsconfigSetString(context, key, value), option)
	}
	require.NoError(t, unix.FsconfigCreate(context))
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID)
	require.NoError(t, err)
	defer func() { _ = unix.Close(mount) }()
	require.NoError(t, unix.MoveMount(mount, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(target, 0)) })
	return target
}

// requireShared writes on each side and reads on the other.
func requireShared(t *testing.T, served, mounted string) {
	t.Helper()
	defer func() { require.NoError(t, os.RemoveAll(mounted+"/sub")) }()
	require.NoError(t, os.Mkdir(mounted+"/sub", 0o700))
	require.NoError(t, os.WriteFile(mounted+"/sub/file", []byte("from the client"), 0o600))
	requireContent(t, served+"/sub/file", "from the client")
	require.NoError(t, os.WriteFile(served+"/file", []byte("from the server"), 0o600))
	requireContent(t, mounted+"/file", "from the server")
}

func requireContent(t *testing.T, file, want string) {
	t.Helper()
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

// mountinfo returns the lines that are about a directory, or all of them.
func mountinfo(t *testing.T, dir string) (lines string) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		if dir == "" || filepath.Clean(strings.Fields(line)[4]) == dir {
			lines += line
		}
	}
	return lines
}

// startCall starts a call that may hang, and returns a channel for its error.
func startCall(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return done
}

// requireWaiting fails if the call ends within a second. A slow machine only makes a call
// wait longer.
func requireWaiting(t *testing.T, done <-chan error) {
	t.Helper()
	select {
	case err := <-done:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(time.Second):
	}
}

func result(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("it still hangs")
		return nil
	}
}
