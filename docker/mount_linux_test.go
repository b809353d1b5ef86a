package docker

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// TestHungMount: while a mount hangs, other calls answer, and the next one for the volume waits. A call whose caller has
// gone is undone.
func TestHungMount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mounter := mounttest.NewFake(mount.Config{})
		plugin := volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter})
		d := newTestDriver(t, Config{Plugin: plugin, Mounter: mounter})
		for _, name := range []string{"hung", "other"} {
			_, err := d.create(t.Context(), request{Name: name})
			require.NoError(t, err)
		}
		plugin.Inject(volumetest.Fault{Method: volumetest.SetUp, Delay: time.Hour, Times: 1})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := d.mount(ctx, request{Name: "hung", ID: "a"})
			ended <- err
		}()
		synctest.Wait()
		start := time.Now()
		_, err := d.get(t.Context(), request{Name: "hung"})
		require.NoError(t, err)
		_, err = d.pathOf(t.Context(), request{Name: "hung"})
		require.NoError(t, err)
		answer, err := d.list(t.Context(), request{})
		require.NoError(t, err)
		require.Len(t, answer.Volumes, 2)
		_, err = d.mount(t.Context(), request{Name: "other", ID: "b"})
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), patience)

		waiting, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		_, err = d.mount(waiting, request{Name: "hung", ID: "b"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 2, plugin.Calls(volumetest.SetUp), "one operation for a volume, and that of another")
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		_, use, _, err := d.store.get("hung")
		require.NoError(t, err)
		require.True(t, use.isEmpty())
		_, err = d.mount(t.Context(), request{Name: "hung", ID: "c"})
		require.NoError(t, err)
	})
}

// TestCallerGone: a mount whose caller has gone before the answer is no user.
func TestCallerGone(t *testing.T) {
	mounter := mounttest.NewFake(mount.Config{})
	d := newTestDriver(t, Config{Plugin: volumetest.NewFakePlugin(volumetest.FakeConfig{Mounter: mounter}), Mounter: mounter})
	_, err := d.create(t.Context(), request{Name: "data"})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	gone := &goneAtEnd{Context: ctx, cancel: cancel, d: d}
	_, err = d.mount(gone, request{Name: "data", ID: "a"})
	require.ErrorIs(t, err, context.Canceled)
	_, use, _, err := d.store.get("data")
	require.NoError(t, err)
	require.True(t, use.isEmpty())
	is, err := mounter.IsMountPoint(t.Context(), d.path("data"))
	require.True(t, err != nil || !is)
}

// A goneAtEnd is a context that ends once the volume is mounted.
type goneAtEnd struct {
	context.Context
	cancel context.CancelFunc
	d      *driver
}

func (g *goneAtEnd) Err() error {
	if is, err := g.d.config.Mounter.IsMountPoint(context.Background(), g.d.path("data")); err == nil && is {
		g.cancel()
	}
	return g.Context.Err()
}

// TestFailedMount: a mount that fails leaves no user and no mount; one that fails beside a user leaves that.
func TestFailedMount(t *testing.T) {
	for _, method := range []volumetest.Method{volumetest.Attach, volumetest.WaitForAttach, volumetest.MountDevice, volumetest.SetUp} {
		t.Run(string(method), func(t *testing.T) {
			r := newFakeRig(t)
			require.NoError(t, r.create("data", nil))
			r.plugin.Inject(volumetest.Fault{Method: method, Err: volume.ErrTransient, Times: 1})
			_, err := r.mount("data", "a")
			require.Error(t, err)
			require.NotEmpty(t, r.status("data", "error"))
			require.False(t, r.isMounted("data"))
			require.Zero(t, r.status("data", "users"))
			_, err = r.mount("data", "a")
			require.NoError(t, err)
			require.Nil(t, r.status("data", "error"))

			r.plugin.Inject(volumetest.Fault{Method: method, Err: volume.ErrTransient, Times: 1})
			_, err = r.mount("data", "b")
			require.Error(t, err)
			require.True(t, r.isMounted("data"))
			require.Equal(t, 1.0, r.status("data", "users"))
		})
	}
}

// TestFailedUnmount: a volume that cannot be taken down has no user; the next call continues, also of the next process.
func TestFailedUnmount(t *testing.T) {
	for _, method := range []volumetest.Method{volumetest.TearDown, volumetest.UnmountDevice, volumetest.Detach} {
		for _, next := range []string{"unmount", "mount", "remove", "restart"} {
			t.Run(string(method)+", "+next, func(t *testing.T) {
				r := newFakeRig(t)
				require.NoError(t, r.create("data", nil))
				_, err := r.mount("data", "a")
				require.NoError(t, err)
				r.plugin.Inject(volumetest.Fault{Method: method, Err: volume.ErrTransient, Times: 1})
				require.Error(t, r.unmount("data", "a"))
				require.Zero(t, r.status("data", "users"))
				require.NotEmpty(t, r.status("data", "error"))
				switch next {
				case "unmount":
					require.NoError(t, r.unmount("data", "a"))
				case "mount":
					_, err := r.mount("data", "b")
					require.NoError(t, err)
					require.True(t, r.isMounted("data"))
					require.NoError(t, r.unmount("data", "b"))
				case "restart":
					r.restart()
					require.Eventually(t, func() bool { return len(r.uses()) == 0 }, 10*time.Second, time.Millisecond)
				}
				if next != "remove" {
					require.False(t, r.isMounted("data"))
					require.Empty(t, r.uses())
				}
				require.NoError(t, r.remove("data"))
				require.False(t, r.isMounted("data"))
			})
		}
	}
}
