package podvolume

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/mount"
	"github.com/volumekit/volumekit/mount/mounttest"
	"github.com/volumekit/volumekit/volume"
)

// A directoryMounter returns the results of mountNew.
type directoryMounter struct {
	*mounttest.Fake
	mountNew func(wait mount.Patience) (bool, error)
}

func (d directoryMounter) MountNew(_ context.Context, _ mount.Request, dir mount.NewDirectory) (bool, error) {
	return d.mountNew(dir.Wait)
}

func newDirectoryMounts(t *testing.T, mountNew func(wait mount.Patience) (bool, error)) *Mounts {
	t.Helper()
	host, err := volume.NewHost(t.Context(), t.TempDir())
	require.NoError(t, err)
	return NewMounts(host, directoryMounter{mounttest.NewFake(mount.Config{}), mountNew})
}

// TestSetUpNewAtDisk: a call that would wait is made again in a goroutine, and its result is that of
// SetUpNew.
func TestSetUpNewAtDisk(t *testing.T) {
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		mounted bool
		err     error
	}{
		"mounted":           {mounted: true},
		"declined":          {},
		"would always wait": {err: mount.ErrWouldWait},
		"failed":            {err: mount.AsUncertain(broken)},
	} {
		var waits []mount.Patience
		p := newDirectoryMounts(t, func(wait mount.Patience) (bool, error) {
			waits = append(waits, wait)
			if wait == mount.NoWait {
				return false, mount.ErrWouldWait
			}
			return test.mounted, test.err
		})
		ends := 0
		done, err := p.SetUpNew(t.Context(), p.host.Root()+"/volume", mount.Request{Source: "/"}, func() { ends++ })
		require.Equal(t, test.mounted, done, name)
		if test.err == nil || errors.Is(test.err, mount.ErrWouldWait) {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, broken, name)
			require.ErrorIs(t, err, volume.ErrUncertain, name)
		}
		require.Equal(t, []mount.Patience{mount.NoWait, mount.MayWait}, waits, name)
		require.Equal(t, 1, ends, name)
	}
}

// TestSetUpNewStuck: SetUpNew returns soon after ctx ends. It releases its locks when the work has
// ended.
func TestSetUpNewStuck(t *testing.T) {
	answer := make(chan struct{})
	p := newDirectoryMounts(t, func(wait mount.Patience) (bool, error) {
		if wait == mount.NoWait {
			return false, mount.ErrWouldWait
		}
		<-answer
		return true, nil
	})
	dir, req := p.host.Root()+"/volume", mount.Request{Source: "/"}
	synctest.Test(t, func(t *testing.T) {
		answer = make(chan struct{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ended := false
		begin := time.Now()
		done, err := p.SetUpNew(ctx, dir, req, func() { ended = true })
		require.False(t, done)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, volume.ErrUncertain)
		require.Less(t, time.Since(begin), time.Second+100*time.Millisecond)
		synctest.Wait()
		require.False(t, ended)

		done, err = p.SetUpNew(t.Context(), dir, req, nil)
		require.NoError(t, err)
		require.False(t, done, "the stuck call still has the path")
		close(answer)
		synctest.Wait()
		require.True(t, ended)
		done, err = p.SetUpNew(t.Context(), dir, req, nil)
		require.NoError(t, err)
		require.True(t, done)
	})
}

// TestSetUpNewFails: a call that fails at once has mounted nothing.
func TestSetUpNewFails(t *testing.T) {
	broken := errors.New("broken")
	p := newDirectoryMounts(t, func(mount.Patience) (bool, error) { return false, mount.AsUncertain(broken) })
	ends := 0
	done, err := p.SetUpNew(t.Context(), p.host.Root()+"/volume", mount.Request{Source: "/"}, func() { ends++ })
	require.False(t, done)
	require.ErrorIs(t, err, broken)
	require.Equal(t, 1, ends)
}
