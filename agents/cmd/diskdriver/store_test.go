package main

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/volumekit/volumekit/volume"
)

const testProvisioner = "disk.example.com"

// storeWithDisk returns a store with a disk.
func storeWithDisk(t *testing.T) store {
	t.Helper()
	s := newStore(t.TempDir())
	requireCreated(t, s, 1<<20)
	return s
}

func requireCreated(t *testing.T, s store, size int64) {
	t.Helper()
	actual, err := s.create(t.Context(), "disk", testProvisioner, size)
	require.NoError(t, err)
	require.Equal(t, size, actual)
}

func requireForeign(t *testing.T, s store) {
	t.Helper()
	_, err := s.create(t.Context(), "disk", "other.example.com", 4096)
	require.ErrorAs(t, err, new(*volume.IgnoredError))
	require.ErrorAs(t, s.remove(t.Context(), "disk", "other.example.com"), new(*volume.IgnoredError))
}

// TestStoreRefuses: calls that come too early, or are for the disk of another, change nothing.
func TestStoreRefuses(t *testing.T) {
	s, ctx := storeWithDisk(t), t.Context()
	attach := func(node string) error { return s.attach(ctx, "disk", node) }
	detach := func(node string) error { return s.detach(ctx, "disk", node) }
	use := func(node string) error { return s.use(ctx, "disk", node) }
	release := func(node string) error { return s.release(ctx, "disk", node) }
	remove := func(provisioner string) error { return s.remove(ctx, "disk", provisioner) }
	dangling, ignored := new(*volume.DanglingAttachError), new(*volume.IgnoredError)
	require.ErrorIs(t, use("a"), volume.ErrFailedPrecondition, "it is not attached")
	for range 2 {
		require.NoError(t, attach("a"))
	}
	require.ErrorAs(t, attach("b"), dangling)
	require.EqualValues(t, "a", (*dangling).CurrentNode)
	require.ErrorIs(t, use("b"), volume.ErrFailedPrecondition)
	for range 2 {
		require.NoError(t, use("a"))
	}
	require.NoError(t, detach("b"), "it is not attached there")
	require.ErrorIs(t, detach("a"), errUsed)
	require.ErrorIs(t, remove(testProvisioner), volume.ErrFailedPrecondition)
	require.NoError(t, release("b"))
	require.ErrorIs(t, detach("a"), errUsed, "the other node has released nothing")
	for range 2 {
		require.NoError(t, release("a"))
	}
	require.ErrorIs(t, remove(testProvisioner), volume.ErrFailedPrecondition)
	for range 2 {
		require.NoError(t, detach("a"))
	}
	require.ErrorAs(t, remove("other.example.com"), ignored)
	require.FileExists(t, s.image("disk"))
	for range 2 {
		require.NoError(t, remove(testProvisioner))
	}
	entries, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.Empty(t, entries)
	require.ErrorIs(t, attach("a"), os.ErrNotExist)
	require.Equal(t, volume.Final, volume.KindOf(attach("a")))
}

// TestUsedDiskWithoutAttachment: a disk that a node uses is attached to no other one.
func TestUsedDiskWithoutAttachment(t *testing.T) {
	s, ctx := storeWithDisk(t), t.Context()
	require.NoError(t, s.attach(ctx, "disk", "a"))
	require.NoError(t, s.use(ctx, "disk", "a"))
	require.NoError(t, os.Remove(s.path("disk", attachedFile)))
	require.ErrorAs(t, s.attach(ctx, "disk", "b"), new(*volume.DanglingAttachError))
	require.ErrorIs(t, s.use(ctx, "disk", "a"), volume.ErrFailedPrecondition)
	require.ErrorIs(t, s.detach(ctx, "disk", "a"), errUsed, "the second call of use has not ended the use")
}

// TestCreateAgain: a call continues one that was killed at any point, and so does the removal. The disk of another is
// refused.
func TestCreateAgain(t *testing.T) {
	makeDir := func(s store) { require.NoError(t, os.Mkdir(s.path("disk", ""), 0o700)) }
	makeClaim := func(s store) {
		makeDir(s)
		require.NoError(t, os.Symlink(testProvisioner, s.path("disk", claimFile)))
	}
	for name, prepare := range map[string]func(s store){
		"nothing":   func(store) {},
		"directory": makeDir,
		"claim":     makeClaim,
		"new image": func(s store) {
			makeClaim(s)
			require.NoError(t, os.WriteFile(s.path("disk", "image.1.new"), make([]byte, 8192), 0o600))
		},
		"all": func(s store) { requireCreated(t, s, 4096) },
	} {
		t.Run(name, func(t *testing.T) {
			s, ctx := newStore(t.TempDir()), t.Context()
			prepare(s)
			requireCreated(t, s, 4096)
			requireForeign(t, s)
			size, err := s.grow(ctx, "disk", 1)
			require.NoError(t, err)
			require.EqualValues(t, 4096, size, "a disk never becomes smaller")
			require.NoError(t, s.remove(ctx, "disk", testProvisioner))
			require.NoDirExists(t, s.path("disk", ""))

			s = newStore(t.TempDir())
			prepare(s)
			require.NoError(t, s.remove(ctx, "disk", testProvisioner))
			require.NoDirExists(t, s.path("disk", ""))
		})
	}
}

// TestCreateKeepsContent: a disk that exists keeps its content and its size, also if the call fails, and so does one that
// an administrator has made.
func TestCreateKeepsContent(t *testing.T) {
	s, ctx := storeWithDisk(t), t.Context()
	require.NoError(t, os.WriteFile(s.image("disk"), []byte("content"), 0o600))
	create := func() error {
		_, err := s.create(ctx, "disk", testProvisioner, 1<<20)
		return err
	}
	requireContent := func() {
		t.Helper()
		text, err := os.ReadFile(s.image("disk"))
		require.NoError(t, err)
		require.Equal(t, "content", string(text))
	}
	require.NoError(t, create())
	requireContent()
	require.NoError(t, os.Rename(s.image("disk"), s.image("disk")+".moved"))
	require.NoError(t, os.Symlink(imageFile, s.image("disk"))) // an error other than a missing file
	require.ErrorIs(t, create(), volume.ErrTransient)
	require.ErrorIs(t, s.remove(ctx, "disk", testProvisioner), volume.ErrTransient)
	require.NoError(t, os.Rename(s.image("disk")+".moved", s.image("disk")))
	requireContent()
	require.NoError(t, os.Remove(s.path("disk", claimFile)))
	require.ErrorAs(t, create(), new(*volume.IgnoredError))
	requireForeign(t, s)
	requireContent()
}

// TestRemoveFails: the disk stays the provisioner's until its image is removed.
func TestRemoveFails(t *testing.T) {
	s, ctx := storeWithDisk(t), t.Context()
	require.NoError(t, os.Remove(s.image("disk")))
	require.NoError(t, os.MkdirAll(s.path("disk", imageFile+"/stray"), 0o700)) // cannot be removed
	require.Equal(t, volume.Uncertain, volume.KindOf(s.remove(ctx, "disk", testProvisioner)))
	require.NoError(t, os.Remove(s.path("disk", imageFile+"/stray")))
	require.NoError(t, s.remove(ctx, "disk", testProvisioner))
	require.NoDirExists(t, s.path("disk", ""))
}

// TestGivenUpCreate: a late step of another process replaces and removes no image.
func TestGivenUpCreate(t *testing.T) {
	s, ctx := storeWithDisk(t), t.Context()
	require.NoError(t, os.WriteFile(s.image("disk"), []byte("content"), 0o600))
	require.ErrorIs(t, s.make("disk", testProvisioner, 1<<20), os.ErrExist)
	text, err := os.ReadFile(s.image("disk"))
	require.NoError(t, err)
	require.Equal(t, "content", string(text))
	require.NoError(t, s.remove(ctx, "disk", testProvisioner))
	require.ErrorIs(t, s.make("disk", testProvisioner, 1<<20), os.ErrNotExist)
	require.NoDirExists(t, s.path("disk", ""))
}

// TestEndedContext: a call with an ended context changes nothing.
func TestEndedContext(t *testing.T) {
	s := newStore(t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.create(ctx, "disk", testProvisioner, 4096)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, volume.Transient, volume.KindOf(err))
	require.NoDirExists(t, s.path("disk", ""))
}

// TestDetachDuringUse: of a detach and the beginning of a use at the same time one fails, at least.
func TestDetachDuringUse(t *testing.T) {
	s, ctx := storeWithDisk(t), context.Background()
	for n := range 2000 {
		require.NoError(t, s.attach(ctx, "disk", "a"))
		var detaching, using error
		calls := []func(){
			func() { detaching = s.detach(ctx, "disk", "a") },
			func() { using = s.use(ctx, "disk", "a") },
		}
		var both sync.WaitGroup
		both.Go(calls[n%2]) // on one processor the second one runs first
		both.Go(calls[1-n%2])
		both.Wait()
		require.False(t, detaching == nil && using == nil, "the node uses a disk that is detached")
		for _, err := range []error{detaching, using} {
			require.True(t, err == nil || errors.Is(err, volume.ErrFailedPrecondition), err)
		}
		require.NoError(t, s.release(ctx, "disk", "a"))
	}
}
