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
	"github.com/volumekit/volumekit/util"
	"github.com/volumekit/volumekit/volume"
)

// slow is a kernel whose Unmount takes its time, and gives up when its context ends.
type slow struct {
	mount.Interface
	busy  time.Duration // until it can be unmounted
	ends  bool
	start time.Time
}

func (m *slow) Unmount(ctx context.Context, target string) error {
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

// TestPatience: an end that does not come is waited for once, a mount in use as long
// as the caller has time.
func TestPatience(t *testing.T) {
	for _, test := range []struct {
		busy, given, want time.Duration
		ends              bool
		err               error
	}{
		{ends: true, given: time.Hour},
		{given: time.Hour, want: patience},
		{given: time.Second, want: time.Second},
		{busy: time.Minute, ends: true, given: time.Hour, want: time.Minute},
		{busy: 55 * time.Second, given: time.Hour, want: time.Minute},
		{busy: time.Minute, given: time.Second, want: time.Second, err: context.DeadlineExceeded},
	} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			host, err := volume.NewHost(dir)
			require.NoError(t, err)
			fake := mounttest.NewFake(mount.Config{})
			m := &slow{Interface: fake, busy: test.busy, ends: test.ends, start: time.Now()}
			mounts, target := util.NewPodMounts(host, m), host.Root()+"/pods/a"
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
