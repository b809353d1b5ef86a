package manager_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/volumekit/volumekit/manager"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// A politeAttacher detaches, as a controller does, what is not in use any more.
type politeAttacher struct{ manager *manager.Manager }

func (*politeAttacher) Attach(context.Context, manager.Attachment) (string, error) {
	return "/dev/x", nil
}

func (a *politeAttacher) Detach(ctx context.Context, at manager.Attachment) error {
	for slices.Contains(a.manager.GetVolumesInUse(), at.Volume) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
	return nil
}

// A volume is in use until it is unmounted, and not while it is detached.
func TestNotInUseThenDetached(t *testing.T) {
	for name, fake := range map[string]volumetest.FakeConfig{"mounted once": {}, "for each pod": {NoDeviceMount: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, fake)
				n.claim("a")
				a := &politeAttacher{}
				n.config.Attacher = a
				for _, method := range []volumetest.Method{volumetest.UnmountDevice, volumetest.TearDown} {
					n.plugin.Inject(volumetest.Fault{Method: method, Err: errors.New("busy"), Times: 5})
				}
				m, stop := n.run()
				defer stop()
				a.manager = m
				pod := podWith("1", "a")
				n.source.SetPod(pod)
				n.up(m, pod)
				n.source.RemovePod("1")
				for settled(n) > 0 {
					require.Len(t, m.GetVolumesInUse(), 1)
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(time.Minute)
				require.Empty(t, m.GetVolumesInUse())
				require.Empty(t, m.State().Volumes)
			})
		})
	}
}
