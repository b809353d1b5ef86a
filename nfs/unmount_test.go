package nfs

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/util/podvolume"
	"github.com/volumekit/volumekit/volume"
)

// slowKernel is a kernel whose Unmount takes its time, and gives up when its context ends.
type slowKernel struct {
	mount.Interface
	busy  time.Duration // until it can be unmounted
	ends  bool
	start time.Time
}

func (m *slowKernel) Unmount(ctx context.Context, target string) error {
	select {
	case <-ctx.Done():
		return &mount.Error{Op: "unmount", Target: target, Err: fmt.Errorf("%w: %w", ctx.Err(), mount.ErrNotAnswering)}
	case <-time.After(time.Until(m.start.Add(m.busy))):
	}
	if err := m.Interface.Unmount(ctx, target); err != nil || m.ends {
		return err
	}
	<-ctx.Done()
	return &mount.Error{Op: "unmount", Target: target, Err: fmt.Errorf("%w: %w", mount.ErrNotEnded, ctx.Err())}
}

// TestUnmountTimeLimit: an end that does not come is waited for once, a mount in use as long
// as the caller has time.
func TestUnmountTimeLimit(t *testing.T) {
	for _, test := range []struct {
		busy, given, want time.Duration
		ends              bool
		err               error
	}{
		{ends: true, given: time.Hour},
		{given: time.Hour, want: endLimit},
		{given: time.Second, want: time.Second},
		{busy: time.Minute, ends: true, given: time.Hour, want: time.Minute},
		{busy: 55 * time.Second, given: time.Hour, want: time.Minute},
		{busy: time.Minute, given: time.Second, want: time.Second, err: context.DeadlineExceeded},
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			host, err := volume.NewHost(t.Context(), dir)
			require.NoError(t, err)
			fake := mounttest.NewFake(mount.Config{})
			m := &slowKernel{Interface: fake, busy: test.busy, ends: test.ends, start: time.Now()}
			mounts, target := podvolume.NewMounts(host, m), host.Root()+"/pods/a"
			require.NoError(t, mounts.SetUp(t.Context(), target, mount.Request{Source: "nas:/x", FSType: "nfs"}))
			ctx, cancel := context.WithTimeout(t.Context(), test.given)
			defer cancel()
			start := time.Now()
			err = unmount(ctx, mounts, target)
			require.Equal(t, test.want, time.Since(start), "%+v: %v", test, err)
			if test.err != nil {
				require.ErrorIs(t, err, test.err)
				return
			}
			require.NoError(t, err)
			require.NoDirExists(t, target)
		})
	}
}
